"""Compare whole detectors on a GPU with torch: boxes, and time beside eager mode and torch.compile.

    python benchmarks/gpu/cuda_detectors.py build PIECES [--capability 9.0] NAME...   # without a GPU
    python benchmarks/gpu/cuda_detectors.py run PIECES OUT [--turns 3] NAME...        # with one
    python benchmarks/gpu/cuda_detectors.py check PIECES NAME...                      # with one: memcheck, racecheck
    python benchmarks/gpu/cuda_detectors.py build PIECES --cpu NAME...                # for XNNPACK
    python benchmarks/gpu/cuda_detectors.py run PIECES OUT --cpu [--turns 3] NAME...  # on two threads of a processor

A NAME is a detector of peers/detectors.py, also with "_x4" (four pictures a call) or "_fp16" at its end. Those of
ultralytics (8.4.190) and effdet (0.4.1, omegaconf 2.3.0) need these libraries on PYTHONPATH, installed with --no-deps.
`build` writes PIECES.tar.xz with the programs, four pictures, eager mode's results on the CPU and build/runtime.tar.
`run` needs it, this folder's scripts and peers/. It compares the boxes of each picture as sets, and times all ways in
turns, with inputs and outputs in device memory; torch computes in float32, without TF32. A figure is the median of all
turns.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cuda_peers import ready_file, timed, turn, unpack, wait

REPOSITORY = Path(__file__).parents[2]
MODELS = Path(__file__).with_name("peers")
ZOO = REPOSITORY / "tests/zoo"
SOURCES = (MODELS / "detectors.py", ZOO / "spread.py", ZOO / "weights.py")
PICTURES = ("astronaut", "chelsea", "coffee", "rocket")
REPEAT, WARMUP = 50, 10
CPU_REPEAT, CPU_WARMUP, CPU_THREADS = 5, 1, 2
LIMIT = 180  # seconds of one run of a program

PROGRAM = """
[[torch_model]]
name = "{name}_model"
entry = "detectors.py:Detector"
kwargs = {{ name = "{name}" }}
srcs = ["spread.py", "weights.py"]
inputs = [{{ name = "image", shape = {shape}, dtype = "{dtype}", range = [0, 1] }}]

[[pte_program]]
name = "{name}"
model = ":{name}_model"
stack = ["{backend}", "portable"]
{device}"""
ON_GPU = 'device = ":gpu"\ndevice_io = true\n'
DEVICE = '[[device_target]]\nname = "gpu"\narch = "x86_64"\ncompute_capabilities = ["{}"]\n'


# -- without a GPU --------------------------------------------------------------------------------------------------


def build(pieces: Path, capability: str, on_cpu: bool, names: Sequence[str]) -> int:
    """Write each program to a folder below PIECES. Return 1 if any does not build, else 0."""
    sys.path[:0] = [str(source.parent) for source in SOURCES]
    from detectors import DETECTORS, variant

    workspace = pieces / "workspace"
    workspace.mkdir(parents=True, exist_ok=True)
    for source in SOURCES:
        (workspace / source.name).write_bytes(source.read_bytes())
    (workspace / "MODELBUILD.toml").touch()
    declared = []
    for name in names:
        base, count, dtype = variant(name)
        shape = [3, *DETECTORS[base]] if count == 1 else [count, 3, *DETECTORS[base]]
        backend, device = ("xnnpack", "") if on_cpu else ("cuda", ON_GPU)
        declared.append(PROGRAM.format(name=name, shape=shape, dtype=dtype, backend=backend, device=device))
    (workspace / "BUILD.toml").write_text("\n".join([DEVICE.format(capability), *declared]))
    command = [sys.executable, "-m", "modelbuild", "-C", workspace, "build", "--keep-going"]
    status = subprocess.run([*command, *(f"//:{name}" for name in names)]).returncode
    for name in names:
        expect(name, pieces / "expected" / name)
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 512 << 20}]
    with (
        lzma.open(pieces.with_suffix(".tar.xz"), "wb", filters=filters) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        with tarfile.open(REPOSITORY / "build/runtime.tar") as runtime:
            runtime.extractall(pieces / "runtime")
        for source in SOURCES:
            archive.add(source, f"models/{source.name}")
        archive.add(pieces / "expected", "expected")
        archive.add(pieces / "runtime", "runtime")
        for folder in (each for name in names for each in workspace.glob(f"modelbuild-out/*/{name}")):
            if folder.is_dir():
                archive.add(folder, folder.name)
    return int(status != 0)


def expect(name: str, folder: Path) -> None:
    """Write pictures and eager mode's results on the CPU to a folder."""
    import torch
    from detectors import DETECTORS, Detector, variant
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    model = Detector(name)
    base, count, dtype = variant(name)
    pictures = []
    for picture in PICTURES:
        image = Image.open(ZOO / f"pictures/{picture}.jpg").convert("RGB").resize(DETECTORS[base][::-1])
        pictures.append((np.asarray(image, np.float32) / 255).transpose(2, 0, 1).astype(dtype, order="C"))
    for number, picture in enumerate(PICTURES):
        given = np.stack(pictures[number:] + pictures[:number]) if count > 1 else pictures[number]
        with torch.no_grad():
            found = model(torch.from_numpy(given))
        np.save(folder / f"{picture}.npy", given)
        np.savez_compressed(folder / f"{picture}.npz", *(each.numpy() for each in found))


# -- with one -------------------------------------------------------------------------------------------------------


def run(pieces: Path, out: Path, turns: int, on_cpu: bool, names: Sequence[str]) -> None:
    """Print a table with a line for each detector, and the geometric mean; write it to OUT/detectors.md."""
    unpack(pieces)
    out.mkdir(parents=True, exist_ok=True)
    peers = {(name, mode): _peer(pieces, out, name, mode, on_cpu) for name in names for mode in ("eager", "compile")}
    wait(peers.values())
    head = [
        "| detector | boxes found | boxes | largest difference | ours ms | eager | torch.compile | ratio |",
        "| --- " * 8 + "|",
    ]
    lines, ratios = [], []
    for name in names:
        found = _compared(pieces, name)
        times: dict[str, list[float]] = {"ours": [], "eager": [], "compile": []}
        problems = []
        for _ in range(turns):
            for way, kept in times.items():
                facts = _ours(pieces, name, on_cpu) if way == "ours" else turn(peers[name, way])
                if "ms" in facts:
                    kept.append(facts["ms"])
                else:
                    problems.append(f"{way}: {facts['problem']}")
        middle = {way: statistics.median(kept) if kept else math.nan for way, kept in times.items()}
        known = [middle[way] for way in ("eager", "compile") if not math.isnan(middle[way])]
        ratios.append(middle["ours"] / min(known, default=math.nan))
        figures = " | ".join(f"{each:.2f}" for each in (*middle.values(), ratios[-1]))
        lines.append(f"| {name} | {found} | {figures} | {'; '.join(dict.fromkeys(problems))[:300]}")
        print(lines[-1], flush=True)
    for process in peers.values():
        process.kill()
    known = [ratio for ratio in ratios if not math.isnan(ratio)]
    lines.append(f"geometric mean of {len(known)}: {statistics.geometric_mean(known) if known else math.nan:.2f}")
    (out / "detectors.md").write_text("\n".join([*head, *lines]) + "\n")
    print(lines[-1])


def _program(pieces: Path, name: str, picture: str) -> list[str]:
    given = pieces / f"expected/{name}/{picture}.npy"
    return [str(pieces / "runtime/bin/modelbuild-run"), str(pieces / name / f"{name}.pte"), f"--input=image={given}"]


def _outputs(pieces: Path, name: str, picture: str) -> list[Any] | str:
    """Return the program's results for a picture, in the model's order, or an error message."""
    with tempfile.TemporaryDirectory() as folder:
        line = [*_program(pieces, name, picture), f"--output-dir={folder}"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=LIMIT)
        if done.returncode:
            return " ".join(done.stderr.split())[-300:]
        signature = json.loads((pieces / name / "signature.json").read_text())["methods"]["forward"]
        return [np.load(Path(folder, f"{port['name']}.npy")) for port in signature["outputs"]]


def _compared(pieces: Path, name: str) -> str:
    """Return the cells of the boxes of all pictures: those of eager mode that the program found, how many both have,
    the largest difference of a coordinate and of a score, and keypoints of these boxes."""
    same, expected, made, pixels, score = 0, 0, 0, 0.0, 0.0
    near = points = 0
    for picture in PICTURES:
        found = _outputs(pieces, name, picture)
        if isinstance(found, str):
            return f"{found} | | "
        with np.load(pieces / f"expected/{name}/{picture}.npz") as stored:
            wanted = _by_kind([stored[key] for key in stored.files])
        own = _by_kind(found)
        expected += len(wanted["boxes"])
        made += len(own["boxes"])
        rows = zip(wanted["boxes"], wanted["scores"], wanted["labels"], strict=True)
        for number, (box, value, label) in enumerate(rows):
            apart = np.abs(own["boxes"] - box).max(1, initial=0)
            apart = np.where(own["labels"] == label, apart, np.inf)
            if apart.size and apart.min() < 1:
                same += 1
                pixels = max(pixels, float(apart.min()))
                score = max(score, float(abs(own["scores"][apart.argmin()] - value)))
                if "keypoints" in wanted:
                    moved = own["keypoints"][apart.argmin()] - wanted["keypoints"][number]
                    near += int((np.abs(moved).max(1) < 1).sum())
                    points += len(moved)
    keypoints = f"; {near} of {points} keypoints within 1 px" if points else ""
    return f"{same} of {expected} | {made} | {pixels:.1e} px, {score:.1e}{keypoints}"


def _by_kind(tensors: Sequence[Any]) -> Mapping[str, Any]:
    boxes = next(each for each in tensors if each.ndim == 2 and each.shape[1] == 4)
    labels = next(each for each in tensors if each.ndim == 1 and each.dtype == np.int64)
    scores = next(each for each in tensors if each.ndim == 1 and each.dtype.kind == "f")
    keypoints = [each for each in tensors if each.ndim == 3 and each.shape[2] == 3]
    found = {"boxes": boxes.astype(np.float32), "labels": labels, "scores": scores.astype(np.float32)}
    return {**found, **({"keypoints": keypoints[0]} if keypoints else {})}


def _ours(pieces: Path, name: str, on_cpu: bool) -> dict[str, Any]:
    repeat, warmup = (CPU_REPEAT, CPU_WARMUP) if on_cpu else (REPEAT, WARMUP)
    where = f"--threads={CPU_THREADS}" if on_cpu else "--device-io"
    line = [*_program(pieces, name, PICTURES[0]), where, "--json", f"--repeat={repeat}", f"--warmup={warmup}"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode:
        return {"problem": " ".join(done.stderr.split())[-200:]}
    return {"ms": json.loads(done.stdout)["latency"]["median_ms"]}


def _peer(pieces: Path, out: Path, name: str, mode: str, on_cpu: bool) -> subprocess.Popen[str]:
    """Start a process that compiles a model, makes a file and waits for lines."""
    command = [sys.executable, __file__, "peer", str(pieces), name, mode, *(["--cpu"] if on_cpu else [])]
    log = (out / f"{name}.{mode}.log").open("w")
    return subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)


def peer(pieces: Path, name: str, mode: str, on_cpu: bool) -> None:
    """Print torch's median milliseconds for each line of the input."""
    results, sys.stdout = sys.stdout, sys.stderr  # libraries print
    sys.path.insert(0, str(pieces / "models"))
    import torch
    from detectors import Detector

    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_num_threads(CPU_THREADS)
    device = "cpu" if on_cpu else "cuda"
    module = Detector(name).to(device)
    x = torch.from_numpy(np.load(pieces / f"expected/{name}/{PICTURES[0]}.npy")).to(device)
    call = torch.compile(module) if mode == "compile" else module
    with torch.no_grad():
        for _ in range(2 if on_cpu else 5):
            call(x)
        ready_file(os.getpid()).touch()
        for _ in sys.stdin:
            took = _timed_on_cpu(lambda: call(x)) if on_cpu else timed(lambda: call(x), WARMUP, REPEAT)
            print(json.dumps({"ms": took * 1e3}), file=results, flush=True)


def _timed_on_cpu(call: Callable[[], object]) -> float:
    times = []
    for _ in range(CPU_REPEAT):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def check(pieces: Path, names: Sequence[str]) -> int:
    """Print the last line of compute-sanitizer's memcheck and racecheck for each program. Return 1 if any fails."""
    unpack(pieces)
    wrong = 0
    for name in names:
        for tool in ("memcheck", "racecheck"):
            line = ["compute-sanitizer", f"--tool={tool}", *_program(pieces, name, PICTURES[0])]
            done = subprocess.run(line, capture_output=True, text=True, timeout=LIMIT)
            wrong |= done.returncode
            print(f"| {name} | {tool} | {done.stdout.splitlines()[-1].strip('= ')} |", flush=True)
    return int(wrong != 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("build", "run", "check", "peer"):
        command = commands.add_parser(name)
        command.add_argument("pieces", type=lambda text: Path(text).resolve())
        if name == "run":
            command.add_argument("out", type=Path)
            command.add_argument("--turns", type=int, default=3)
        if name != "check":
            command.add_argument("--cpu", action="store_true")
        if name != "peer":
            command.add_argument("names", nargs="+", metavar="NAME")
    commands.choices["build"].add_argument("--capability", default="9.0")
    commands.choices["peer"].add_argument("name")
    commands.choices["peer"].add_argument("mode")
    given = parser.parse_args()
    if given.command == "build":
        return build(given.pieces, given.capability, given.cpu, given.names)
    if given.command == "check":
        return check(given.pieces, given.names)
    if given.command == "run":
        run(given.pieces, given.out, given.turns, given.cpu, given.names)
    else:
        peer(given.pieces, given.name, given.mode, given.cpu)
    return 0


if __name__ == "__main__":
    sys.exit(main())
