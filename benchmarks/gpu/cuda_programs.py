"""Build programs for the CUDA delegate without a GPU, and run them on one, compared with eager mode and with torch.

    python benchmarks/gpu/cuda_programs.py build PIECES [--capability 9.0] [NAME...]
    python benchmarks/gpu/cuda_programs.py run PIECES OUT [NAME...]

`build` writes PIECES.tar.xz, with the runtime of build/runtime.tar. Besides it, `run` needs this repository, and a
Python with numpy and, for the comparison, torch with CUDA (of any version). `run` writes the results of each program to
OUT/results.jsonl. A program that hangs is killed; the others still run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from cuda_peers import timed

REPOSITORY = Path(__file__).parents[2]
SOURCES = [
    REPOSITORY / "benchmarks/gpu/cuda_zoo.py",
    REPOSITORY / "tests/rules/backends/cuda/programs.py",
    REPOSITORY / "examples/models/nets.py",
]
sys.path[:0] = [str(source.parent) for source in SOURCES]

LIMIT = 20  # seconds for one program in the runtime
TORCH_LIMIT = 90  # seconds for torch.compile of all programs, in parallel
REPEAT, WARMUP = 300, 30

COLUMNS = ("error", "allowed", "runtime_us", "eager_us", "compile_us")

PROGRAM = """
[[torch_model]]
name = "{name}_model"
entry = "cuda_zoo.py:make"
kwargs = {{ name = "{name}" }}
inputs = [{inputs}]
{dynamic}
[[backend_stack]]
name = "{name}_stack"
backends = [{before}{{ type = "cuda", min_block_size = 1, precision = "{precision}" }}, "portable"]

[[pte_program]]
name = "{name}"
model = ":{name}_model"
stack = ":{name}_stack"
device = ":gpu"
"""
DEVICE = '[[device_target]]\nname = "gpu"\narch = "x86_64"\ncompute_capabilities = ["{}"]\n'


# -- without a GPU --------------------------------------------------------------------------------------------------


def build(pieces: Path, capability: str, names: Sequence[str]) -> None:
    """Write each program to a folder below PIECES, with its inputs and eager mode's outputs on the CPU."""
    from cuda_zoo import PRECISIONS, STACKS, ZOO, calls

    names = names or list(ZOO)
    workspace = pieces / "workspace"
    workspace.mkdir(parents=True, exist_ok=True)
    for source in SOURCES:
        (workspace / source.name).write_bytes(source.read_bytes())
    (workspace / "MODELBUILD.toml").touch()
    declared = [DEVICE.format(capability)]
    for name in names:
        given = calls(name)[0]
        for place, tensor in enumerate(given):
            np.save(workspace / f"{name}.{place}.npy", tensor.numpy())
        dynamic = "dynamic = { n = { min = 1, max = 64 } }\n" if ZOO[name].dynamic else ""
        shapes = [["n", *t.shape[1:]] if dynamic else list(t.shape) for t in given]
        tables = [
            f'{{ name = "x{place}", shape = {json.dumps(shape)}, file = "{name}.{place}.npy" }}'
            for place, shape in enumerate(shapes)
        ]
        inputs, before = ", ".join(tables), STACKS.get(name, "")
        precision = PRECISIONS.get(name, "fp32")
        declared.append(PROGRAM.format(name=name, inputs=inputs, dynamic=dynamic, before=before, precision=precision))
    (workspace / "BUILD.toml").write_text("\n".join(declared))
    command = [sys.executable, "-m", "modelbuild", "-C", workspace, "build", "--keep-going", "--jobs", "1"]
    subprocess.run([*command, *(f"//:{name}" for name in names)])
    for name in names:
        made = workspace / "modelbuild-out/gpu" / name
        if made.is_dir():
            lay_out(pieces / name, made, name)
    with tarfile.open(REPOSITORY / "build/runtime.tar") as archive:
        archive.extractall(pieces / "runtime")
    with tarfile.open(pieces.with_suffix(".tar.xz"), "w:xz") as archive:
        for folder in [pieces / "runtime", *(pieces / name for name in names if (pieces / name).is_dir())]:
            archive.add(folder, folder.name)


def lay_out(folder: Path, made: Path, name: str) -> None:
    import torch
    from cuda_zoo import calls, make

    folder.mkdir(exist_ok=True)
    for file in made.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    module, values = make(name), {}
    with torch.no_grad():
        for call, given in enumerate(calls(name)):
            result = module(*(each.clone() for each in given))
            outputs = result if isinstance(result, tuple) else (result,)
            values |= {f"in.{call}.{place}": each.numpy() for place, each in enumerate(given)}
            values |= {f"out.{call}.{place}": each.numpy() for place, each in enumerate(outputs)}
    np.savez(folder / "calls.npz", **values)


# -- with one -------------------------------------------------------------------------------------------------------


def run(pieces: Path, out: Path, names: Sequence[str]) -> int:
    """Run each program with the runtime, then with torch, and write a line of OUT/results.jsonl for each. Return 1 if
    any result is wrong, else 0."""
    with tarfile.open(pieces.with_suffix(".tar.xz")) as archive:
        archive.extractall(pieces)
    found = {path.parent.name: path.parent for path in sorted(pieces.glob("*/calls.npz"))}
    results: dict[str, dict[str, Any]] = {name: {} for name in names or found}

    def note(name: str, **facts: Any) -> None:
        results[name].update(facts)
        with (out / "results.jsonl").open("a") as file:
            file.write(json.dumps({"program": name, **facts}) + "\n")

    for name in results:
        note(name, **parity_facts(name, pieces))
        note(name, **latency(found[name], out))
    for name, facts in _torch(list(results), pieces):
        note(name, **facts)
    lines = [f"| {' | '.join(['program', *COLUMNS])} |", "| --- " * (1 + len(COLUMNS)) + "|"]
    lines += [f"| {name} | " + " | ".join(_shown(f.get(c)) for c in COLUMNS) + " |" for name, f in results.items()]
    (out / "table.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return int(not all("error" in f and "problem" not in f and f["error"] <= f["allowed"] for f in results.values()))


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:.1e}" if value < 1 else f"{value:.0f}"


def _started(what: str, pieces: Path, name: str) -> subprocess.Popen[str]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, __file__, what, pieces, name], text=True, **pipes)


def _ended(process: subprocess.Popen[str], what: str) -> dict[str, Any]:
    """Send a waiting process the line to continue. Return the facts that it prints."""
    try:
        text, errors = process.communicate("go\n", LIMIT)
        problem = f"{what}: {errors[-600:]}" if process.returncode else ""
    except subprocess.TimeoutExpired:
        process.kill()
        text, problem = process.communicate()[0], f"{what}: no end after {LIMIT} s"
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    facts = {key: value for line in lines for key, value in line.items()}
    return facts | {"problem": problem} if problem else facts


def parity_facts(name: str, pieces: Path) -> dict[str, Any]:
    return _ended(_started("parity", pieces, name), "parity")


def _torch(names: Sequence[str], pieces: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield torch's facts of each program: compiled in parallel, then timed one by one."""
    waiting = {name: _started("torch", pieces, name) for name in names}
    end = time.monotonic() + TORCH_LIMIT
    while time.monotonic() < end and not all(
        (pieces / name / "ready").exists() or process.poll() is not None for name, process in waiting.items()
    ):
        time.sleep(0.1)
    for name, process in waiting.items():
        if not (pieces / name / "ready").exists():
            process.kill()
        yield name, _ended(process, "torch")


def latency(folder: Path, out: Path) -> dict[str, Any]:
    """Return latencies of modelbuild-run in microseconds, with inputs and outputs in host memory."""
    with np.load(folder / "calls.npz") as values:
        for key in [each for each in values.files if each.startswith("in.0.")]:
            np.save(folder / f"{key}.npy", values[key])
    signature = json.loads((folder / "signature.json").read_text())["methods"]["forward"]
    names = [each["name"] for each in signature["inputs"]]
    inputs = [f"--input={name}={folder / f'in.0.{place}.npy'}" for place, name in enumerate(names)]
    command = [folder.parent / "runtime/bin/modelbuild-run", folder / f"{folder.name}.pte", *inputs, "--json"]
    try:
        done = subprocess.run(
            [*command, f"--repeat={REPEAT}", f"--warmup={WARMUP}"], capture_output=True, text=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return {"problem": f"modelbuild-run: no end after {LIMIT} s"}
    if done.returncode:
        return {"problem": f"modelbuild-run: {done.stderr[-600:]}"}
    report = json.loads(done.stdout)
    (out / f"{folder.name}.json").write_text(done.stdout)
    return {"runtime_us": report["latency"]["median_ms"] * 1e3, "runtime_p95_us": report["latency"]["p95_ms"] * 1e3}


def torch_facts(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield torch's median latencies in microseconds, from host to host memory and on the device. After compiling,
    write a file `ready` and wait for a line before timing."""
    import torch
    from cuda_zoo import calls, make

    module, given = make(folder.name).cuda(), calls(folder.name)[0]
    device = [each.cuda() for each in given]
    yield {"torch": torch.__version__, "gpu": torch.cuda.get_device_name()}

    def to_host(result: Any) -> None:
        for each in result if isinstance(result, tuple) else (result,):
            each.cpu()

    kinds = [("eager", module), ("compile", torch.compile(module))]
    with torch.no_grad():
        for _, called in kinds:
            called(*device)
        (folder / "ready").touch()
        sys.stdin.readline()
        for kind, called in kinds:
            through: Callable[[], None] = lambda c=called: to_host(c(*(each.cuda() for each in given)))  # noqa: E731
            yield {f"{kind}_us": timed(through, WARMUP, REPEAT) * 1e6}
            yield {f"{kind}_device_us": timed(partial(called, *device), WARMUP, REPEAT) * 1e6}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["build", "run", "parity", "torch"])
    parser.add_argument("pieces", type=lambda text: Path(text).resolve())
    parser.add_argument("rest", nargs="*")
    parser.add_argument("--capability", default="9.0")
    given = parser.parse_intermixed_args()
    if given.what == "build":
        build(given.pieces, given.capability, given.rest)
    elif given.what == "run":
        return run(given.pieces, Path(given.rest[0]), given.rest[1:])
    elif given.what == "parity":
        from cuda_parity import parity

        print(json.dumps(parity(given.pieces, given.rest[0])), flush=True)
    else:
        for facts in torch_facts(given.pieces / given.rest[0]):
            print(json.dumps(facts), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
