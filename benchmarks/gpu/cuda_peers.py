"""Time twelve models on a GPU side by side: programs of modelbuild, torch's eager mode and torch.compile.

    python benchmarks/gpu/cuda_peers.py build PIECES [--capability 9.0] [--packages timm] CASE...   # without a GPU
    python benchmarks/gpu/cuda_peers.py run PIECES OUT [--turns 2] [--kernels] CASE...              # with one
    python benchmarks/gpu/cuda_peers.py build PIECES --random CASE...                               # without
    python benchmarks/gpu/cuda_peers.py check PIECES OUT CASE...                                    # with one
    python benchmarks/gpu/cuda_peers.py build PIECES --candidates 8 CASE...                         # without
    python benchmarks/gpu/cuda_peers.py tune PIECES OUT CASE...                                     # with one
    python benchmarks/gpu/cuda_peers.py build PIECES --tuning OUT CASE...                           # without
    python benchmarks/gpu/cuda_peers.py times PIECES OUT CASE...                                    # with one

A CASE is a model of peers/peer_models.py, its precision and batch: `resnet50:tf32:1`. `build` writes PIECES.tar.xz with
the programs, build/runtime.tar and the Python packages that the other machine's torch lacks. `run` needs it, this file
and peers/. All ways keep inputs and outputs in device memory and replay CUDA graphs: modelbuild's program, eager mode,
and torch.compile with mode "reduce-overhead". They take turns; a figure is the median of all turns. With --kernels, it
writes the time of each kernel of the program and of torch.compile to OUT/CASE.*.txt instead. With --random, weights
are random and eager mode's outputs on the CPU are packed too; `check` compares them with the program's, and runs it
under compute-sanitizer's memcheck. With --candidates, programs are packed with their candidates; `tune` times these and
writes tuning files to OUT, which a build with --tuning uses. `times` writes the times of all candidates to
OUT/times.jsonl, for cuda_cost.py.
"""

from __future__ import annotations

import argparse
import csv
import json
import lzma
import math
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
MODELS = Path(__file__).with_name("peers")
sys.path.insert(0, str(MODELS))

REPEAT, WARMUP = 300, 30
LIMIT, COMPILED = 120, 240  # seconds of one turn, and of torch's compiler

PROGRAM = """
[[torch_model]]
name = "{name}_model"
entry = "peer_models.py:make"
kwargs = {{ name = "{model}", precision = "{precision}", constant = {constant} }}
inputs = [{{ name = "x", shape = {shape}, dtype = "{dtype}"{range} }}]

[[backend_stack]]
name = "{name}_stack"
backends = [{{ type = "cuda", min_block_size = 1, precision = "{products}"{more} }}, "portable"]

[[pte_program]]
name = "{name}"
model = ":{name}_model"
stack = ":{name}_stack"
device = ":gpu"
device_io = true
"""
DEVICE = '[[device_target]]\nname = "gpu"\narch = "x86_64"\ncompute_capabilities = ["{}"]\n'


def split(case: str) -> tuple[str, str, int]:
    model, precision, batch = case.split(":")
    return model, precision, int(batch)


def folder_of(case: str) -> str:
    return case.replace(":", "_")


# -- without a GPU --------------------------------------------------------------------------------------------------


def build(
    pieces: Path,
    capability: str,
    packages: Sequence[str],
    cases: Sequence[str],
    random: bool = False,
    candidates: int = 0,
    tuning: Path | None = None,
) -> int:
    """Write each program to a folder below PIECES. Return 1 if any does not build, else 0."""
    from peer_models import PEERS

    workspace = pieces / "workspace"
    workspace.mkdir(parents=True, exist_ok=True)
    (workspace / "peer_models.py").write_bytes((MODELS / "peer_models.py").read_bytes())
    (workspace / "MODELBUILD.toml").touch()
    declared = [DEVICE.format(capability)]
    for case in cases:
        model, precision, batch = split(case)
        peer = PEERS[model]
        more = f", candidates = {candidates}" if candidates else ""
        if tuning is not None:
            name = f"{folder_of(case)}.tuning.json"
            (workspace / name).write_bytes((tuning / name).read_bytes())
            more = f', tuning = "{name}"'
        ids = {"dtype": "int64", "range": f", range = [0, {peer.vocabulary - 1}]"}
        declared.append(
            PROGRAM.format(
                name=folder_of(case),
                model=model,
                precision=precision,
                constant=str(not random).lower(),
                products="tf32" if precision == "tf32" else "fp32",
                more=more,
                shape=[batch, *peer.shape],
                **(ids if peer.vocabulary else {"dtype": "float32", "range": ""}),
            )
        )
    (workspace / "BUILD.toml").write_text("\n".join(declared))
    command = [sys.executable, "-m", "modelbuild", "-C", workspace, "build", "--keep-going"]
    status = subprocess.run([*command, *(f"//:{folder_of(case)}" for case in cases)]).returncode
    made = [workspace / "modelbuild-out/gpu" / folder_of(case) for case in cases]
    if random:
        for case in cases:
            expect(case, pieces / "expected" / folder_of(case))
    # The dictionary contains all: programs of a model in other precisions have the same weights.
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": 512 << 20}]
    with (
        lzma.open(pieces.with_suffix(".tar.xz"), "wb", filters=filters) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        if random:
            archive.add(pieces / "expected", "expected")
        with tarfile.open(REPOSITORY / "build/runtime.tar") as runtime:
            runtime.extractall(pieces / "runtime")
        archive.add(pieces / "runtime", "runtime")
        for folder in filter(Path.is_dir, made):
            archive.add(folder, folder.name)
        for package in packages:
            spec = find_spec(package)
            assert spec is not None
            assert spec.origin is not None
            left_out = lambda info: None if "__pycache__" in info.name else info  # noqa: E731
            archive.add(Path(spec.origin).parent, f"packages/{package}", filter=left_out)
    return int(status != 0)


def expect(case: str, folder: Path) -> None:
    """Write the input of a case and eager mode's output on the CPU to a folder."""
    import numpy as np
    import torch
    from peer_models import inputs, make

    model, precision, batch = split(case)
    folder.mkdir(parents=True, exist_ok=True)
    x = inputs(model, batch)
    with torch.no_grad():
        np.save(folder / "expected.npy", make(model, precision, constant=False)(x).numpy())
    np.save(folder / "x.npy", x.numpy())


# -- with one -------------------------------------------------------------------------------------------------------


def unpack(pieces: Path) -> None:
    if not pieces.is_dir():
        with tarfile.open(pieces.with_suffix(".tar.xz")) as archive:
            archive.extractall(pieces)


def tune(pieces: Path, out: Path, cases: Sequence[str]) -> int:
    """Time each case's candidates, and write a tuning file for each to OUT. Return 1 if any fails, else 0."""
    unpack(pieces)
    out.mkdir(parents=True, exist_ok=True)
    wrong = 0
    for case in cases:
        made = out / f"{folder_of(case)}.tuning.json"
        wrong |= subprocess.run(
            [sys.executable, pieces / folder_of(case) / f"{folder_of(case)}.tuning.pyz", made]
        ).returncode
    return wrong


def times(pieces: Path, out: Path, cases: Sequence[str]) -> None:
    """Write a line for each choice of a kernel to OUT/times.jsonl: what it is for, and each candidate's microseconds,
    parameters, registers and spilled bytes."""
    sys.path.insert(0, str(REPOSITORY / "rules"))
    sys.path.insert(0, str(REPOSITORY))
    from modelbuild_rules.backends.cuda.steps.kernels.cubin import resources
    from modelbuild_rules.backends.cuda.steps.kernels.timing import CHOICES, DECIDES, Card, Launch, TimingError

    unpack(pieces)
    out.mkdir(parents=True, exist_ok=True)
    card = Card()
    with (out / "times.jsonl").open("w") as file:
        for case in cases:
            with zipfile.ZipFile(pieces / folder_of(case) / f"{folder_of(case)}.tuning.pyz") as opened:
                for choice in json.loads(opened.read(CHOICES))["choices"]:
                    rows = []
                    for chosen, each in zip(choice["chosen"], choice["launches"], strict=True):
                        launch = Launch(**{**each, "cubin": opened.read(each["cubin"])})
                        try:
                            rows.append([card.time(launch), chosen, *resources(launch.cubin)])
                        except TimingError as error:
                            print(f"{case}: {launch.name}: {error}", file=sys.stderr)
                    about = {name: choice[name] for name in DECIDES}
                    file.write(json.dumps({"case": case, **about, "rows": rows}) + "\n")


def check(pieces: Path, out: Path, cases: Sequence[str]) -> int:
    """Print each case's greatest difference from eager mode, the greatest value, and memcheck's last line. Return 1 if
    a difference is above a thousandth of the greatest value (a fiftieth in TF32 and float16), else 0."""
    import numpy as np

    unpack(pieces)
    wrong = 0
    for case in cases:
        folder, given = pieces / folder_of(case), pieces / "expected" / folder_of(case)
        signature = json.loads((folder / "signature.json").read_text())["methods"]["forward"]
        (port,), (made,) = signature["inputs"], signature["outputs"]
        program = [str(pieces / "runtime/bin/modelbuild-run"), str(folder / f"{folder_of(case)}.pte")]
        line = [*program, f"--input={port['name']}={given / 'x.npy'}", f"--output-dir={folder}"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=LIMIT)
        if done.returncode:
            print(case, done.stderr[-300:], flush=True)
            wrong = 1
            continue
        expected, found = np.load(given / "expected.npy"), np.load(folder / f"{made['name']}.npy")
        error, scale = float(np.abs(found - expected).max()), float(np.abs(expected).max())
        allowed = scale / (1000 if case.split(":")[1] == "fp32" else 50)
        wrong |= not error <= allowed or not scale
        checked = subprocess.run(["compute-sanitizer", *line], capture_output=True, text=True, timeout=LIMIT)
        print(f"| {case} | {error:.1e} | {scale:.1e} | {checked.stdout.splitlines()[-1].strip('= ')} |", flush=True)
    return int(wrong)


def run(pieces: Path, out: Path, turns: int, kernels: bool, cases: Sequence[str]) -> None:
    """Print a table with a line for each case, and its geometric mean; write it to OUT/peers.md."""
    unpack(pieces)
    out.mkdir(parents=True, exist_ok=True)
    ways = [(case, mode) for case in cases for mode in ("eager", "compile")]
    peers = {way: _peer(pieces, out, *way, kernels) for way in ways}
    wait(peers.values())
    if kernels:
        for case in cases:
            _kernels(pieces, out, case)
            for mode in ("eager", "compile"):
                peers[case, mode].communicate("go\n", LIMIT)
        return
    head = ["| case | ours us | eager | torch.compile | ratio to the best |", "| --- " * 5 + "|"]
    lines, ratios = [], []
    for case in cases:
        times: dict[str, list[float]] = {"ours": [], "eager": [], "compile": []}
        problems = []
        for _ in range(turns):
            for way, found in times.items():
                facts = _ours(pieces, case) if way == "ours" else turn(peers[case, way])
                if "us" in facts:
                    found.append(facts["us"])
                else:
                    problems.append(f"{way}: {facts['problem']}")
        middle = {way: statistics.median(found) if found else math.nan for way, found in times.items()}
        best = min(middle["eager"], middle["compile"], key=lambda us: (math.isnan(us), us))
        ratios.append(middle["ours"] / best)
        figures = [*(f"{middle[way]:.0f}" for way in times), f"{ratios[-1]:.2f}"]
        lines.append(f"| {case} | {' | '.join(figures)} | {'; '.join(dict.fromkeys(problems))[:300]}")
        print(lines[-1], flush=True)
    for process in peers.values():
        process.kill()
    known = [ratio for ratio in ratios if not math.isnan(ratio)]
    mean = statistics.geometric_mean(known) if known else math.nan
    table = "\n".join([*head, *lines, f"| geometric mean of {len(known)} | | | | {mean:.2f} |"])
    (out / "peers.md").write_text(table + "\n")
    print(table)


def _program(pieces: Path, case: str) -> list[str]:
    folder = pieces / folder_of(case)
    signature = json.loads((folder / "signature.json").read_text())["methods"]["forward"]
    (port,) = signature["inputs"]
    path = folder / "x.npy"
    if not path.exists():
        import numpy as np
        from peer_models import inputs

        model, _, batch = split(case)
        np.save(path, inputs(model, batch).numpy())
    program = folder / f"{folder_of(case)}.pte"
    return [str(pieces / "runtime/bin/modelbuild-run"), str(program), f"--input={port['name']}={path}", "--device-io"]


def _ours(pieces: Path, case: str) -> dict[str, Any]:
    line = [*_program(pieces, case), "--cuda-graph", "--json", f"--repeat={REPEAT}", f"--warmup={WARMUP}"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode:
        return {"problem": " ".join(done.stderr.split())[-200:]}
    return {"us": json.loads(done.stdout)["latency"]["median_ms"] * 1e3}


def _kernels(pieces: Path, out: Path, case: str) -> None:
    """Write the microseconds of each kernel of one run, by Nsight Compute."""
    line = ["ncu", "--csv", "--clock-control=none", "--metrics=gpu__time_duration.sum,launch__grid_size"]
    done = subprocess.run([*line, *_program(pieces, case)], capture_output=True, text=True, timeout=LIMIT)
    rows: dict[str, dict[str, str]] = {}
    text = done.stdout.splitlines()
    start = next((n for n, each in enumerate(text) if each.startswith('"ID"')), len(text))
    for row in csv.DictReader(text[start:]):
        about = rows.setdefault(row["ID"], {"name": row["Kernel Name"]})
        about[row["Metric Name"]] = f"{row['Metric Value']} {row['Metric Unit']}"
    shown = [
        f"{each.get('gpu__time_duration.sum', '')}\t{each.get('launch__grid_size', '')}\t{each['name']}"
        for each in rows.values()
    ]
    (out / f"{folder_of(case)}.ours.txt").write_text("\n".join(shown or [done.stdout[-3000:], done.stderr[-3000:]]))


def _peer(pieces: Path, out: Path, case: str, mode: str, kernels: bool) -> subprocess.Popen[str]:
    """Start a process that compiles a model, says "ready" and waits for lines."""
    log = (out / f"{folder_of(case)}.{mode}.log").open("w")
    command = [sys.executable, __file__, "peer", str(pieces), str(out), case, mode, *(["--kernels"] if kernels else [])]
    return subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)


def ready_file(process: int) -> Path:
    """Return the file that a process makes when it has compiled its model."""
    return Path(tempfile.gettempdir(), f"peer-{process}.ready")


def wait(processes: Any) -> None:
    """Wait until each process is ready, or has ended, or the time is over."""
    end = time.monotonic() + COMPILED
    for process in processes:
        ready = ready_file(process.pid)
        while time.monotonic() < end and process.poll() is None and not ready.exists():
            time.sleep(0.1)


def turn(process: subprocess.Popen[str]) -> dict[str, Any]:
    if process.poll() is not None or not ready_file(process.pid).exists():
        return {"problem": "did not compile"}
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    line = process.stdout.readline()
    facts: dict[str, Any] = json.loads(line) if line else {"problem": "ended"}
    return facts


def peer(pieces: Path, out: Path, case: str, mode: str, kernels: bool) -> None:
    """Print the median microseconds of a CUDA graph of torch's for each line of the input."""
    import os

    sys.path.append(str(pieces / "packages"))
    import torch
    from peer_models import inputs, make

    model, precision, batch = split(case)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    module, x = make(model, precision).cuda(), inputs(model, batch).cuda()
    with torch.no_grad():
        if mode == "compile":
            replay = torch.compile(module, mode="reduce-overhead")
            for _ in range(5):
                replay(x)
            call = lambda: replay(x)  # noqa: E731
        else:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                for _ in range(3):
                    module(x)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                module(x)
            call = graph.replay
        ready_file(os.getpid()).touch()
        for _ in sys.stdin:
            if kernels:
                from torch.profiler import ProfilerActivity, profile

                with profile(activities=[ProfilerActivity.CUDA]) as seen:
                    call()
                    torch.cuda.synchronize()
                events = sorted((e for e in seen.events()), key=lambda e: e.time_range.start)
                text = "\n".join(f"{e.device_time_total:.2f} us\t{e.name}" for e in events)
                (out / f"{folder_of(case)}.{mode}.txt").write_text(text)
                return
            print(json.dumps({"us": timed(call, WARMUP, REPEAT) * 1e6}), flush=True)


def timed(call: Callable[[], Any], warmup: int, repeat: int) -> float:
    """Return the median seconds of a call, with the GPU's work."""
    import torch

    times = []
    for _ in range(warmup + repeat):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[warmup:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("build", "run", "check", "tune", "times", "peer"):
        command = commands.add_parser(name)
        command.add_argument("pieces", type=lambda text: Path(text).resolve())
    commands.choices["build"].add_argument("--capability", default="9.0")
    commands.choices["build"].add_argument("--packages", nargs="*", default=["timm"])
    commands.choices["build"].add_argument("--random", action="store_true")
    commands.choices["build"].add_argument("--candidates", type=int, default=0)
    commands.choices["build"].add_argument("--tuning", type=Path)
    for name in ("run", "check", "tune", "times"):
        commands.choices[name].add_argument("out", type=Path)
    commands.choices["run"].add_argument("--turns", type=int, default=2)
    commands.choices["run"].add_argument("--kernels", action="store_true")
    for name in ("build", "run", "check", "tune", "times"):
        commands.choices[name].add_argument("cases", nargs="+", metavar="CASE")
    commands.choices["peer"].add_argument("out", type=Path)
    commands.choices["peer"].add_argument("case")
    commands.choices["peer"].add_argument("mode")
    commands.choices["peer"].add_argument("--kernels", action="store_true")
    given = parser.parse_args()
    if given.command == "build":
        more = {"random": given.random, "candidates": given.candidates, "tuning": given.tuning}
        return build(given.pieces, given.capability, given.packages, given.cases, **more)
    if given.command == "tune":
        return tune(given.pieces, given.out, given.cases)
    if given.command == "check":
        return check(given.pieces, given.out, given.cases)
    if given.command == "times":
        times(given.pieces, given.out, given.cases)
    elif given.command == "run":
        run(given.pieces, given.out, given.turns, given.kernels, given.cases)
    else:
        peer(given.pieces, given.out, given.case, given.mode, given.kernels)
    return 0


if __name__ == "__main__":
    sys.exit(main())
