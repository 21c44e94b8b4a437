"""Build a language model of SmolLM-135M's size with random weights, and compare it with ExecuTorch's own recipe.

    python benchmarks/llm.py --weights int4

Both programs are for XNNPACK and have the same quantized weights; ExecuTorch's Python runtime runs both in one process,
in turns. The peer is torchao's quantize_ on the module, torch.export and to_edge_transform_and_lower with two
XnnpackPartitioners, as ExecuTorch's export of Llama uses them. It has the method `decode` alone.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

MODULE = """
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

LENGTH = 128  # positions in the cache
CONFIG = LlamaConfig(
    vocab_size=49152,
    hidden_size=576,
    intermediate_size=1536,
    num_hidden_layers=LAYERS,
    num_attention_heads=9,
    num_key_value_heads=3,
    max_position_embeddings=LENGTH,
    tie_word_embeddings=True,
)


class Cache:
    def __init__(self, module: nn.Module, positions: Tensor) -> None:
        self.module, self.positions = module, positions

    def update(self, key: Tensor, value: Tensor, layer: int, *_: object, **__: object) -> tuple[Tensor, Tensor]:
        keys, values = self.module.get_buffer(f"keys{layer}"), self.module.get_buffer(f"values{layer}")
        keys.index_copy_(2, self.positions, key)
        values.index_copy_(2, self.positions, value)
        return keys, values


class Llm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = LlamaForCausalLM(CONFIG)
        shape = (1, CONFIG.num_key_value_heads, LENGTH, CONFIG.head_dim)
        for layer in range(CONFIG.num_hidden_layers):
            self.register_buffer(f"keys{layer}", torch.zeros(shape), persistent=False)
            self.register_buffer(f"values{layer}", torch.zeros(shape), persistent=False)

    def call(self, tokens: Tensor, positions: Tensor) -> Tensor:
        seen = torch.arange(LENGTH)[None, :] <= positions[:, None]
        mask = torch.where(seen, 0.0, -1e9)[None, None]
        found = self.model.model(
            tokens,
            attention_mask=mask,
            position_ids=positions[None],
            past_key_values=Cache(self, positions),
            use_cache=True,
        )
        return self.model.lm_head(found.last_hidden_state[:, -1])

    def prefill(self, tokens: Tensor) -> Tensor:
        return self.call(tokens, torch.arange(tokens.shape[1]))

    def decode(self, token: Tensor, position: Tensor) -> Tensor:
        return self.call(token, position)

    forward = decode
"""

BUILD = """
[[backend_stack]]
name = "xnnpack"
backends = ["xnnpack", "portable"]

[[torch_model]]
name = "model"
entry = "module.py:Llm"
seed = 0

[torch_model.methods.prefill]
inputs = [{ name = "tokens", shape = [1, "n"], dtype = "int64", range = [0, 49151] }]
dynamic = { n = { min = 2, max = 64 } }
outputs = ["logits"]

[torch_model.methods.decode]
inputs = [
    { name = "token", shape = [1, 1], dtype = "int64", range = [0, 49151] },
    { name = "position", shape = [1], dtype = "int64", range = [0, 127] },
]
outputs = ["logits"]

[[quantization_recipe]]
name = "int8"
quantizers = [{ type = "xnnpack", mode = "dynamic" }]

[[quantization_recipe]]
name = "int4"
quantizers = [{ type = "xnnpack", mode = "dynamic", weights = "int4", group_size = 32 }]

[[matrix]]
name = "recipes"
recipe = ["int8", "int4"]

[[quantized_model]]
name = "quantized_{recipe}"
matrix = "recipes"
model = ":model"
recipe = ":{recipe}"

[[pte_program]]
name = "llm_{recipe}"
matrix = "recipes"
model = ":quantized_{recipe}"
stack = ":xnnpack"

[[pte_program]]
name = "decode_{recipe}"
matrix = "recipes"
model = { decode = ":quantized_{recipe}" }
stack = ":xnnpack"
"""

PROMPT = [1, 5, 7, 300]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", choices=("int8", "int4"), default="int4", help="type of the weights (int4)")
    parser.add_argument("--layers", type=int, default=30, help="number of layers (30, as SmolLM-135M has)")
    parser.add_argument("--decode", action="store_true", help="build the method decode alone, as the peer is")
    parser.add_argument("--steps", type=int, default=64, help="tokens in each run (64)")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each program (5)")
    parser.add_argument("--folder", type=Path, help="keep the workspace and its cache here")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    with TemporaryDirectory() as temporary:
        folder: Path = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "MODELBUILD.toml").write_text("")
        (folder / "module.py").write_text(MODULE.replace("LAYERS", str(options.layers)))
        (folder / "BUILD.toml").write_text(BUILD)
        if options.peer:
            export_peer(folder, options.weights)
            return
        name = f"{'decode' if options.decode else 'llm'}_{options.weights}"
        own = timed("modelbuild", [sys.executable, "-m", "modelbuild", "build", f"//:{name}"], folder)
        program = folder / f"modelbuild-out/default/{name}/{name}.pte"
        again = [sys.executable, __file__, "--peer", f"--folder={folder}", f"--weights={options.weights}"]
        peer = timed("executorch", [*again, f"--layers={options.layers}"], folder)
        compare(folder, program, folder / "peer.pte", options.steps, options.rounds)
        print(json.dumps({"weights": options.weights, "layers": options.layers, "modelbuild": own, "executorch": peer}))


def timed(name: str, command: Sequence[str], folder: Path) -> dict[str, float]:
    """Run a command; return its seconds and the largest memory of a process of it, in MB, of all commands so far."""
    environment = {**os.environ, "MODELBUILD_CACHE_DIR": str(folder / "cache")}
    began = time.monotonic()
    subprocess.run(command, cwd=folder, env=environment, check=True)
    seconds = time.monotonic() - began
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
    print(f"{name}: {seconds:.0f} s, {memory:.0f} MB")
    return {"seconds": seconds, "memory_mb": memory}


def quantized_module(folder: Path, weights: str, load: Callable[[Any], None] | None = None) -> Any:
    """Return the module with torchao's weights for XNNPACK. `load` sets the module's weights, which are random else."""
    import torch
    from torchao.quantization import quantize_
    from torchao.quantization.granularity import PerAxis, PerGroup
    from torchao.quantization.quant_api import Int8DynamicActivationIntxWeightConfig

    sys.path.insert(0, str(folder))
    from module import Llm  # type: ignore[import-not-found]

    torch.manual_seed(0)
    module = Llm().eval()
    if load:
        load(module)
    kinds = {"int8": (torch.int8, PerAxis(0)), "int4": (torch.int4, PerGroup(32))}
    dtype, granularity = kinds[weights]
    config = Int8DynamicActivationIntxWeightConfig(weight_dtype=dtype, weight_granularity=granularity)
    # The embeddings keep their floating-point weights, which the last layer has in common with them.
    module.model.lm_head.weight = torch.nn.Parameter(module.model.lm_head.weight.detach().clone())
    quantize_(module, config)
    return module


def export_peer(folder: Path, weights: str) -> None:
    """Write peer.pte by ExecuTorch alone."""
    import torch
    from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from torchao.utils import unwrap_tensor_subclass

    module = quantized_module(folder, weights)
    unwrap_tensor_subclass(module)
    examples = (torch.tensor([[1]]), torch.tensor([0]))
    with torch.no_grad():
        exported = torch.export.export(module, examples, strict=False).run_decompositions({})
    linears = XnnpackPartitioner(config_precisions=ConfigPrecisionType.DYNAMIC_QUANT, per_op_mode=True)
    lowered = to_edge_transform_and_lower(exported, partitioner=[linears, XnnpackPartitioner()]).to_executorch()
    with (folder / "peer.pte").open("wb") as file:
        lowered.write_to_file(file)


def compare(folder: Path, own: Path, peer: Path, steps: int, rounds: int) -> None:
    """Print the sizes, tokens per second and equal tokens of both programs."""
    import torch
    from executorch.extension.pybindings._C import _load_for_executorch

    programs = {name: _load_for_executorch(str(path)) for name, path in (("modelbuild", own), ("executorch", peer))}
    methods = {"modelbuild": "decode", "executorch": "forward"}
    calls: dict[str, Callable[[int, int], Any]] = {
        name: lambda token, position, name=name: programs[name].run_method(
            methods[name], (torch.tensor([[token]]), torch.tensor([position]))
        )[0]
        for name in programs
    }
    module = quantized_module(folder, "int4" if "int4" in own.name else "int8")
    with torch.no_grad():
        eager = tokens_of(lambda t, p: module.decode(torch.tensor([[t]]), torch.tensor([p])), steps)[0]
    found: dict[str, list[int]] = {}
    rates: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, call in calls.items():
            found[name], seconds = tokens_of(call, steps, eager)
            rates[name].append(steps / seconds)
    ratios = [one / other for one, other in zip(rates["modelbuild"], rates["executorch"], strict=True)]
    for name, path in (("modelbuild", own), ("executorch", peer)):
        same = sum(one == other for one, other in zip(found[name], eager, strict=True))
        size = path.stat().st_size / 1e6
        rate = median(rates[name])
        print(f"{name}: {size:.1f} MB, {rate:.1f} tokens per second, {same} of {steps} tokens are eager PyTorch's")
    print(f"ratio of the tokens per second, median of {rounds} pairs: {median(ratios):.2f}")


def tokens_of(call: Callable[[int, int], Any], steps: int, forced: Sequence[int] = ()) -> tuple[list[int], float]:
    """Return the most probable token after each of `steps` tokens, and the seconds. A call gets the most probable token
    before, or the one of `forced`."""
    found: list[int] = []
    for position, token in enumerate(PROMPT):
        logits = call(token, position)
    began = time.perf_counter()
    for step in range(steps):
        found.append(int(logits.argmax()))
        token = forced[step] if forced else found[-1]
        logits = call(token, len(PROMPT) + step)
    return found, time.perf_counter() - began


if __name__ == "__main__":
    main()
