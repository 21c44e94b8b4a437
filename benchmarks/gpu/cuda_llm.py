"""Time a language model on a GPU side by side: programs of modelbuild, torch's eager mode and torch.compile.

    python benchmarks/gpu/cuda_llm.py build PIECES [--capability 9.0]   # without a GPU
    python benchmarks/gpu/cuda_llm.py run PIECES OUT [--turns 5]        # with one

The model is peers/llm_model.py: a Llama of SmolLM-135M's size with the methods `prefill`, of a prompt of any length,
and `decode`, of one token, which have their weights and the cache in common. `build` writes PIECES.tar.xz with the
programs and build/runtime.tar. `run` needs it, this file, peers/ and runtime/python. First it compares the tokens of
small models with random weights with eager mode's over 64 steps after a prompt. Then it prints the tokens per second of
the whole model with constant weights, the milliseconds of a prompt of 63 tokens, and the program's GPU memory. All ways
keep tokens and logits in GPU memory, and choose the most probable token by torch: modelbuild's programs as CUDA graphs,
eager mode with and without one, and torch.compile with mode "reduce-overhead". They take turns; a figure is the median
of all turns.
"""

from __future__ import annotations

import argparse
import json
import lzma
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
MODELS = Path(__file__).with_name("peers")
sys.path.insert(0, str(MODELS))

STEPS, PROMPT = 64, 63
WHOLE = {"layers": 30, "vocabulary": 49152, "constant": True}
SMALL = {"layers": 2, "vocabulary": 512, "constant": False}
CASES: dict[str, dict[str, Any]] = {
    "small_fp32": {**SMALL, "precision": "fp32"},
    "small_fp16": {**SMALL, "precision": "fp16"},
    "small_int8": {**SMALL, "precision": "fp16"},
    "small_int4": {**SMALL, "precision": "fp16"},
    "whole_fp16": {**WHOLE, "precision": "fp16"},
    "whole_int8": {**WHOLE, "precision": "fp16"},
    "whole_int4": {**WHOLE, "precision": "fp16"},
}
"""By program, the arguments of its model; those of int8 and int4 have such weights, and compute in float16."""

PROGRAM = """
[[torch_model]]
name = "{name}_model"
entry = "llm_model.py:make"
kwargs = {{ layers = {layers}, vocabulary = {vocabulary}, precision = "{precision}", constant = {constant} }}

[torch_model.methods.prefill]
inputs = [{{ name = "tokens", shape = [1, "n"], dtype = "int64", range = [0, {last}] }}]
dynamic = {{ n = {{ min = 2, max = 128 }} }}
outputs = ["logits"]

[torch_model.methods.decode]
inputs = [
    {{ name = "token", shape = [1, 1], dtype = "int64", range = [0, {last}] }},
    {{ name = "position", shape = [1], dtype = "int64", range = [0, 127] }},
]
outputs = ["logits"]

[[quantized_model]]
name = "{name}_quantized"
model = ":{name}_model"
recipe = ":{recipe}"

[[pte_program]]
name = "{name}"
model = ":{name}_{kind}"
stack = ":cuda"
device = ":gpu"
device_io = true
"""
QUANTIZED = PROGRAM[PROGRAM.index("[[quantized_model]]") : PROGRAM.index("[[pte_program]]")]
DECLARED = """
[[device_target]]
name = "gpu"
arch = "x86_64"
compute_capabilities = ["{}"]

[[backend_stack]]
name = "cuda"
backends = [{{ type = "cuda", min_block_size = 1 }}, "portable"]

[[quantization_recipe]]
name = "int8"
quantizers = [{{ type = "cuda" }}]

[[quantization_recipe]]
name = "int4"
quantizers = [{{ type = "cuda", weights = "int4" }}]
"""


def build(pieces: Path, capability: str, names: list[str]) -> int:
    """Write each program to a folder below PIECES. Return 1 if any does not build, else 0."""
    workspace = pieces / "workspace"
    workspace.mkdir(parents=True, exist_ok=True)
    (workspace / "llm_model.py").write_bytes((MODELS / "llm_model.py").read_bytes())
    (workspace / "MODELBUILD.toml").touch()
    declared = [DECLARED.format(capability)]
    for name in names:
        given = {**CASES[name], "constant": str(CASES[name]["constant"]).lower()}
        recipe = name.rpartition("_")[2]
        kind = "quantized" if recipe.startswith("int") else "model"
        text = PROGRAM if kind == "quantized" else PROGRAM.replace(QUANTIZED, "")
        declared.append(text.format(name=name, kind=kind, recipe=recipe, last=given["vocabulary"] - 1, **given))
    (workspace / "BUILD.toml").write_text("\n".join(declared))
    command = [sys.executable, "-m", "modelbuild", "-C", workspace, "build", "--keep-going"]
    status = subprocess.run([*command, *(f"//:{name}" for name in names)]).returncode
    # The dictionary contains all: programs of a model have the same weights.
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": 512 << 20}]
    with (
        lzma.open(pieces.with_suffix(".tar.xz"), "wb", filters=filters) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        with tarfile.open(REPOSITORY / "build/runtime.tar") as runtime:
            runtime.extractall(pieces / "runtime")
        archive.add(pieces / "runtime", "runtime")
        for name in names:
            if (made := workspace / "modelbuild-out/gpu" / name).is_dir():
                archive.add(made, name)
    return int(status != 0)


def run(pieces: Path, out: Path, turns: int, names: list[str]) -> int:
    """Print whether the small programs' tokens are eager mode's, and a table of tokens per second, which is in
    OUT/llm.json, too. Return 1 if a token differs that may not, else 0."""
    sys.path.insert(0, str(REPOSITORY / "runtime/python"))
    import torch

    if not pieces.is_dir():
        with tarfile.open(pieces.with_suffix(".tar.xz")) as archive:
            archive.extractall(pieces)
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    print(found, flush=True)
    wrong = 0
    with torch.no_grad():
        for name in (each for each in names if each.startswith("small")):
            expected, logits = decoded(*eager(name))
            tokens, own = decoded(*program(pieces, name), expected)
            same = sum(one == other for one, other in zip(tokens, expected, strict=True))
            error = max(float((one - other).abs().max()) for one, other in zip(own, logits, strict=True))
            scale = max(float(each.abs().max()) for each in logits)
            found[name] = {"same": same, "steps": STEPS, "error": error, "scale": scale}
            print(f"{name}: {same} of {STEPS} tokens are eager mode's, error {error:.1e} of {scale:.1e}", flush=True)
            wrong |= same != STEPS if name.endswith("fp32") else error > scale / 50
        ways: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {}
        for name in (each for each in names if each.startswith("whole")):
            free = torch.cuda.mem_get_info()[0]
            ways[f"modelbuild {name}"] = program(pieces, name)
            decoded(*ways[f"modelbuild {name}"])
            found[f"memory of {name}"] = free - torch.cuda.mem_get_info()[0]
            size = (pieces / name / f"{name}.pte").stat().st_size
            print(f"{name}: {size / 1e6:.0f} MB, {found[f'memory of {name}'] / 1e6:.0f} MB on the GPU", flush=True)
        if ways:
            ways |= {f"{mode} whole_fp16": eager("whole_fp16", mode) for mode in ("eager", "graph", "compile")}
        rates: dict[str, list[float]] = {way: [] for way in ways}
        prompts: dict[str, list[float]] = {way: [] for way in ways}
        for way, calls in ways.items():
            began = time.perf_counter()
            decoded(*calls)  # records graphs, and compiles
            print(f"{way}: first prompt and 64 tokens in {time.perf_counter() - began:.1f} s", flush=True)
        for _ in range(turns):
            for way, (prefill, decode) in ways.items():
                prompts[way].append(prompt_time(prefill))
                rates[way].append(rate(decode))
    for way, each in rates.items():
        prompt = statistics.median(prompts[way])
        found[way] = {"tokens_per_second": statistics.median(each), "turns": each, "prompt_ms": prompt}
        print(f"{way}: {statistics.median(each):.0f} tokens per second, prompt in {prompt:.2f} ms", flush=True)
    (out / "llm.json").write_text(json.dumps(found, indent=1) + "\n")
    return int(wrong)


def program(pieces: Path, name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return functions that run a program's methods, prefill and decode, as CUDA graphs on tensors in GPU memory."""
    import modelbuild_runtime

    loaded: Any = modelbuild_runtime.load(pieces / name / f"{name}.pte", runtime=pieces / "runtime")

    def prefill(tokens: Any) -> Any:
        return loaded.run({"tokens": tokens}, "prefill", cuda_graph=True)["logits"]

    def decode(token: Any, position: Any) -> Any:
        return loaded.run({"token": token, "position": position}, "decode", cuda_graph=True)["logits"]

    return prefill, decode


def eager(name: str, mode: str = "eager") -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return functions that run the methods of a program's module by torch on tensors in GPU memory."""
    import torch
    from llm_model import make

    module: Any = make(**CASES[name])
    if "int" in name:
        quantize(module, int(name[-1]))
    module = module.cuda()
    if mode == "eager":
        return module.prefill, module.decode
    if mode == "compile":
        return torch.compile(module.prefill, mode="reduce-overhead"), torch.compile(module, mode="reduce-overhead")
    token, position = torch.zeros(1, 1, dtype=torch.int64).cuda(), torch.zeros(1, dtype=torch.int64).cuda()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            module(token, position)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits = module(token, position)

    def replay(given: Any, place: Any) -> Any:
        token.copy_(given)
        position.copy_(place)
        graph.replay()
        return logits

    return module.prefill, replay


def quantize(module: Any, bits: int) -> None:
    """Round the weights of linear layers as the recipes do: to 8 bits with a scale for each output channel, or to 4
    with one for each 32 values of it."""
    import torch

    module.head.weight = torch.nn.Parameter(module.head.weight.detach().clone())  # the embedding's stays
    for layer in module.modules():
        if isinstance(layer, torch.nn.Linear):
            half = 2 ** (bits - 1)
            groups = layer.weight.float().unflatten(1, (-1, 32) if bits == 4 else (1, -1))
            scale = (groups.abs().amax(2, keepdim=True) / (half - 0.5)).to(layer.weight.dtype)
            # As torchao does: with 4 bits, the inverse of the scale has the weights' type.
            rounded = (groups * (1 / scale).float() if bits == 4 else groups / scale.float()).round()
            layer.weight.copy_((rounded.clamp(-half, half - 1) * scale.float()).flatten(1))


def decoded(
    prefill: Callable[..., Any], decode: Callable[..., Any], given: Sequence[int] = ()
) -> tuple[list[int], list[Any]]:
    """Return the most probable token after a prompt and after each of 63 tokens, and their logits. Each token is the
    most probable one of the step before, or that of `given`, plus the number of the step, so that they differ."""
    import torch

    token, position = torch.ones(1, 1, dtype=torch.int64).cuda(), torch.full((1,), PROMPT).cuda()
    tokens, kept = [], []
    for step in range(STEPS):
        logits = decode(token, position) if step else prefill(torch.arange(PROMPT)[None].cuda())
        tokens.append(int(logits.argmax()))
        kept.append(logits.float().cpu())
        token.fill_(((given[step] if given else tokens[-1]) + step) % logits.shape[-1])
        position.add_(int(step > 0))
    return tokens, kept


def prompt_time(prefill: Callable[..., Any]) -> float:
    """Return the milliseconds of a prompt, in GPU memory: the median of 16."""
    import torch

    tokens = torch.arange(PROMPT)[None].cuda()
    times = []
    for _ in range(19):
        torch.cuda.synchronize()
        began = time.perf_counter()
        prefill(tokens)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return 1e3 * statistics.median(times[3:])


def rate(call: Callable[..., Any]) -> float:
    """Return the tokens per second of 64 steps, each with the most probable token of the step before."""
    import torch

    token, position = torch.ones(1, 1, dtype=torch.int64).cuda(), torch.zeros(1, dtype=torch.int64).cuda()
    for step in range(16 + STEPS):
        if step == 16:
            torch.cuda.synchronize()
            began = time.perf_counter()
        token.copy_(call(token, position).argmax(-1, keepdim=True))
        position.add_(1)
    torch.cuda.synchronize()
    return STEPS / (time.perf_counter() - began)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("build", "run"):
        command = commands.add_parser(name)
        command.add_argument("pieces", type=lambda text: Path(text).resolve())
        command.add_argument("--programs", nargs="+", choices=list(CASES), default=list(CASES), help="by default all")
    commands.choices["build"].add_argument("--capability", default="9.0")
    commands.choices["run"].add_argument("out", type=Path)
    commands.choices["run"].add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    if given.command == "build":
        return build(given.pieces, given.capability, given.programs)
    return run(given.pieces, given.out, given.turns, given.programs)


if __name__ == "__main__":
    sys.exit(main())
