"""Time programs of benchmarks/gpu/cuda_programs.py with every way to run them on a GPU, from host and device memory.

    python benchmarks/gpu/cuda_io.py build PIECES [--capability 9.0] [NAME...]
    python benchmarks/gpu/cuda_io.py run PIECES OUT [--groups GROUP,...] [NAME...]

`build` writes PIECES.tar.xz, with the runtime of build/runtime.tar: each program twice, the second with `device_io`.
`run` writes a line of JSON to OUT/io.jsonl for each program and way to run it. Groups of ways run in processes of their
own, so that a crash or hang affects its group only: `run` is modelbuild-run, `python` modelbuild_runtime, `upstream`
the package torch-tensorrt-executorch-runtime if installed, `torch` this Python's torch.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY / "runtime/python"), str(REPOSITORY / "benchmarks/gpu")]

from cuda_programs import DEVICE, PROGRAM, SOURCES, lay_out  # noqa: E402

PROGRAMS = ("nets", "vit", "resnet18")
REPEAT, WARMUP, TURNS = 500, 50, 2
LIMIT = 90  # seconds for one group and program, torch's compiler included

Values = Sequence[np.ndarray]
Facts = dict[str, Any]
Call = Callable[[], Sequence[Any]]


# -- without a GPU --------------------------------------------------------------------------------------------------


def build(pieces: Path, capability: str, names: Sequence[str]) -> None:
    """Write PIECES.tar.xz: NAME/NAME.pte and NAME/NAME_device.pte of the same compiled parts, and eager results."""
    from cuda_zoo import calls

    workspace = pieces / "workspace"
    workspace.mkdir(parents=True, exist_ok=True)
    for source in SOURCES:
        (workspace / source.name).write_bytes(source.read_bytes())
    (workspace / "MODELBUILD.toml").touch()
    declared = [DEVICE.format(capability)]
    for name in names:
        tables = []
        for place, tensor in enumerate(calls(name)[0]):
            np.save(workspace / f"{name}.{place}.npy", tensor.numpy())
            tables.append(f'{{ name = "x{place}", shape = {list(tensor.shape)}, file = "{name}.{place}.npy" }}')
        host = PROGRAM.format(name=name, inputs=", ".join(tables), dynamic="", before="")
        device = host[host.index("[[pte_program]]") :].replace(f'name = "{name}"', f'name = "{name}_device"')
        declared += [host, device + "device_io = true\n"]
    (workspace / "BUILD.toml").write_text("\n".join(declared))
    labels = [f"//:{name}{kind}" for name in names for kind in ("", "_device")]
    command = [sys.executable, "-m", "modelbuild", "-C", workspace, "build", "--jobs", "1", *labels]
    subprocess.run(command, check=True)
    made = workspace / "modelbuild-out/gpu"
    for name in names:
        lay_out(pieces / name, made / name, name)
        (pieces / name / f"{name}_device.pte").write_bytes((made / f"{name}_device/{name}_device.pte").read_bytes())
    with tarfile.open(REPOSITORY / "build/runtime.tar") as archive:
        archive.extractall(pieces / "runtime")
    with tarfile.open(pieces.with_suffix(".tar.xz"), "w:xz") as archive:
        for folder in ["runtime", *names]:
            archive.add(pieces / folder, folder)


# -- with one -------------------------------------------------------------------------------------------------------


def run(pieces: Path, out: Path, groups: Sequence[str], names: Sequence[str]) -> None:
    """Run each group on each program; before that, fill the cache of torch's compiler for all programs at once."""
    if not pieces.is_dir():
        with tarfile.open(pieces.with_suffix(".tar.xz")) as archive:
            archive.extractall(pieces)
    if "torch" in groups:
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda name: _group("torch", name, pieces, 0), names))
    print("| program | way | median us | p95 us | difference |\n| --- | --- | --- | --- | --- |")
    for name in names:
        for group in groups:
            rows: dict[str, list[Facts]] = {}
            for facts in _group(group, name, pieces, REPEAT):
                rows.setdefault(facts["way"], []).append(facts)
                with (out / "io.jsonl").open("a") as file:
                    file.write(json.dumps({"program": name, **facts}) + "\n")
            for way, found in rows.items():
                print(f"| {name} | {way} | {_row(found)} |", flush=True)


def _row(found: Sequence[Facts]) -> str:
    good = [facts for facts in found if "median_us" in facts]
    if not good:
        return f" | | {found[0]['problem'][-300:]}"
    spans = ([facts[key] for facts in good] for key in ("median_us", "p95_us"))
    return " | ".join([*(f"{min(v):.0f} to {max(v):.0f}" for v in spans), f"{max(f['error'] for f in good):.1e}"])


def _group(group: str, name: str, pieces: Path, repeat: int) -> list[Facts]:
    """Return the facts that a group's process printed before it exited, was killed or crashed."""
    command = [sys.executable, __file__, "group", str(pieces), group, name, f"--repeat={repeat}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        text, errors = process.communicate(timeout=LIMIT)
        problem = errors if process.returncode else ""
    except subprocess.TimeoutExpired:
        process.kill()
        text, problem = process.communicate()[0], f"no end after {LIMIT} s"
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    if problem or not lines:
        problem = " ".join(problem[-600:].split()) or f"exit code {process.returncode}"
        lines.append({"way": group, "problem": problem})
    return lines


def group_facts(group: str, folder: Path, repeat: int) -> Iterator[Facts]:
    """Yield latency and largest difference from eager mode on the CPU, for each way of a group in turn."""
    with np.load(folder / "calls.npz") as stored:
        given, expected = (
            [stored[f"{kind}.0.{place}"] for place in range(sum(key.startswith(f"{kind}.0.") for key in stored))]
            for kind in ("in", "out")
        )
    if group == "run":
        yield from _runner(folder, given, expected, repeat)
        return
    calls: dict[str, Call] = {}
    for way, make in GROUPS[group].items():
        try:
            calls[way] = make(folder, given)
            calls[way]()
        except Exception as error:
            calls.pop(way, None)
            yield {"way": way, "problem": f"{type(error).__name__}: {error}"}
    for _ in range(TURNS if repeat else 0):
        for way, call in calls.items():
            facts = _timed(call, repeat)
            yield {"way": way, **facts, "error": _error([_host(value) for value in call()], expected), **_about()}


def _about() -> Facts:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return {}
    return {"torch": torch.__version__, "gpu": torch.cuda.get_device_name()}


def _host(value: Any) -> np.ndarray:
    found = value if isinstance(value, np.ndarray) else value.detach().cpu().numpy()
    return np.asarray(found)


def _error(made: Values, expected: Values) -> float:
    assert [each.shape for each in made] == [each.shape for each in expected]
    pairs = zip(made, expected, strict=True)
    return max(float(np.abs(a.astype(np.float64) - b).max()) for a, b in pairs)


def _timed(call: Call, repeat: int) -> Facts:
    """Return latencies of a call that waits for its results."""
    times = []
    for _ in range(WARMUP + repeat):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e6)
    kept = times[WARMUP:]
    return {"median_us": float(np.median(kept)), "p95_us": float(np.percentile(kept, 95))}


def _runner(folder: Path, given: Values, expected: Values, repeat: int) -> Iterator[Facts]:
    """Yield facts of modelbuild-run, which times itself, in a process without Python."""
    signature = json.loads((folder / "signature.json").read_text())["methods"]["forward"]
    inputs = []
    for port, value in zip(signature["inputs"], given, strict=True):
        np.save(folder / f"{port['name']}.npy", value)
        inputs.append(f"--input={port['name']}={folder / port['name']}.npy")
    kinds = {"run_host": ("",), "run_device": ("_device", "--device-io")}
    kinds["run_graph"] = (*kinds["run_device"], "--cuda-graph")
    for _ in range(TURNS):
        for way, (kind, *options) in kinds.items():
            command = [folder.parent / "runtime/bin/modelbuild-run", folder / f"{folder.name}{kind}.pte", *inputs]
            repeated = [f"--repeat={repeat}", f"--warmup={WARMUP}", "--json", f"--output-dir={folder / 'out'}"]
            done = subprocess.run([*command, *repeated, *options], capture_output=True, text=True)
            if done.returncode:
                yield {"way": way, "problem": done.stderr.strip()}
                continue
            report = json.loads(done.stdout)
            made = [np.load(output["path"]) for output in report["outputs"]]
            facts = {f"{key}_us": report["latency"][f"{key}_ms"] * 1e3 for key in ("median", "p95")}
            yield {"way": way, **facts, "error": _error(made, expected), "transfers": report.get("transfers")}


def _python(kind: str, cuda_graph: bool = False) -> Callable[[Path, Values], Call]:
    """Return a way to run programs with modelbuild_runtime in this process: numpy arrays, or torch tensors on GPU."""

    def prepare(folder: Path, given: Values) -> Call:
        import modelbuild_runtime

        program: Any = modelbuild_runtime.load(folder / f"{folder.name}{kind}.pte", runtime=folder.parent / "runtime")
        if not kind:
            return lambda: list(program.run(given).values())
        import torch

        inputs = [torch.from_numpy(value).cuda() for value in given]

        def call() -> Sequence[Any]:
            made = list(program.run(inputs, cuda_graph=cuda_graph).values())
            torch.cuda.synchronize()
            return made

        return call

    return prepare


def _upstream(module: bool) -> Callable[[Path, Values], Call]:
    """Return a way to run programs with torch-tensorrt-executorch-runtime: its own `load`, or its replacement of
    executorch's module.

    `load` requires TensorRT even if the program does not.
    """

    def prepare(folder: Path, given: Values) -> Call:
        import torch
        from torch_tensorrt_executorch_runtime import activate
        from torch_tensorrt_executorch_runtime.runtime import load

        path, inputs = folder / f"{folder.name}.pte", tuple(torch.from_numpy(value) for value in given)
        if module:
            loaded = activate()._load_for_executorch(str(path))
            return lambda: loaded.run_method("forward", inputs)
        program = load(path)
        return lambda: program.run(inputs)

    return prepare


def _torch(mode: str, device: bool) -> Callable[[Path, Values], Call]:
    """Return a way to run models with this Python's torch, which may be another version than the program's."""

    def prepare(folder: Path, given: Values) -> Call:
        import torch
        from cuda_zoo import make

        torch.set_grad_enabled(False)
        called: Any = make(folder.name).cuda()
        if mode != "eager":
            called = torch.compile(called, mode=mode)
        host = [torch.from_numpy(value) for value in given]
        inputs = [value.cuda() for value in host]

        def call() -> Sequence[Any]:
            made = called(*inputs) if device else called(*(value.cuda() for value in host))
            made = made if isinstance(made, tuple) else (made,)
            if not device:
                return [value.cpu() for value in made]
            torch.cuda.synchronize()
            return made

        return call

    return prepare


GROUPS: dict[str, dict[str, Callable[[Path, Values], Call]]] = {
    "run": {},
    "python": {
        "python_host": _python(""),
        "python_device": _python("_device"),
        "python_graph": _python("_device", cuda_graph=True),
    },
    "upstream": {"upstream_load": _upstream(module=False), "upstream_module": _upstream(module=True)},
    "torch": {
        "torch_eager_host": _torch("eager", device=False),
        "torch_eager_device": _torch("eager", device=True),
        "torch_compile_host": _torch("default", device=False),
        "torch_compile_device": _torch("default", device=True),
        "torch_graph_device": _torch("reduce-overhead", device=True),
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["build", "run", "group"])
    parser.add_argument("pieces", type=lambda text: Path(text).resolve())
    parser.add_argument("rest", nargs="*")
    parser.add_argument("--capability", default="9.0")
    parser.add_argument("--groups", type=lambda text: text.split(","), default=list(GROUPS))
    parser.add_argument("--repeat", type=int, default=REPEAT)
    given = parser.parse_intermixed_args()
    if given.what == "build":
        build(given.pieces, given.capability, given.rest or PROGRAMS)
    elif given.what == "run":
        run(given.pieces, Path(given.rest[0]), given.groups, given.rest[1:] or PROGRAMS)
    else:
        group, name = given.rest
        for facts in group_facts(group, given.pieces / name, given.repeat):
            print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
