"""Run CUDA programs on a GPU by the device path, and time the driver's JIT compiler with and without a cache.

    python benchmarks/gpu/device_path.py build PIECES [--capability 9.0]    # without a GPU
    python benchmarks/gpu/device_path.py run PIECES OUT                     # with one

`build` writes PIECES.tar.xz: bundles of the example's classifier and of a MobileNetV3 (timm, random weights), each once
for the GPU's compute capability and once for 8.0, whose PTX the driver compiles on a newer GPU. `run` needs it, this
repository, and a Python with numpy. It uses `modelbuild.devices` with the runner `local:`, as `modelbuild test` does:
facts about the device, the lock, files by content, jobs, outputs. It prints OUT/results.json:

    device      the facts that are in the key of a test's result
    sent        files and bytes that the device got, in the first session and in a second one
    error       the largest difference from eager PyTorch on the building machine's CPU; `largest` is the largest output
    latency     of 300 runs from host memory; `before` and `after` are temperatures and clocks
    first       milliseconds of loading a program and of its first run, the median of several processes: without the
                driver's cache, and for PTX also with the cache of an earlier process, in its place and in another one,
                after it came back from the device and was sent there again
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY))

PROGRAMS = {"classifier": [1, 3, 64, 64], "mobilenet": [1, 3, 224, 224]}
OLDEST = "8.0"
REPEAT, WARMUP = 300, 30
PROCESSES = 5
LIMIT = 60  # seconds of one process
NAMES = {"classifier": "classifier.py:Classifier", "mobilenet": "mobilenet.py:make"}
MOBILENET = """import timm
from torch import nn


def make() -> nn.Module:
    return timm.create_model("mobilenetv3_small_050", pretrained=False)
"""
DEVICES = """
[[backend_stack]]
name = "cuda"
backends = [{{ type = "cuda", min_block_size = 1 }}, "portable"]

[[device_target]]
name = "gpu"
arch = "x86_64"
compute_capabilities = ["{capability}"]

[[device_target]]
name = "gpu_ptx"
arch = "x86_64"
compute_capabilities = ["{oldest}"]
"""
PROGRAM = """
[[torch_model]]
name = "{name}_model"
entry = "{entry}"
inputs = [{{ name = "image", shape = {shape}, dtype = "float32", range = [0, 255] }}]
seed = 0

[[pte_program]]
name = "{name}_program"
model = ":{name}_model"
stack = ":cuda"

[[runtime_bundle]]
name = "{name}"
program = ":{name}_program"
runtime = {{ archive = "runtime.tar" }}
"""


# -- without a GPU --------------------------------------------------------------------------------------------------


def build(pieces: Path, capability: str) -> None:
    """Write PIECES.tar.xz: files by their SHA-256, and index.json with the paths of each program's files."""
    workspace = pieces / "workspace"
    workspace.mkdir(parents=True, exist_ok=True)
    (workspace / "MODELBUILD.toml").touch()
    (workspace / "runtime.tar").write_bytes((REPOSITORY / "build/runtime.tar").read_bytes())
    (workspace / "classifier.py").write_bytes((REPOSITORY / "examples/models/classifier.py").read_bytes())
    (workspace / "mobilenet.py").write_text(MOBILENET)
    declared = [PROGRAM.format(name=name, entry=NAMES[name], shape=shape) for name, shape in PROGRAMS.items()]
    (workspace / "BUILD.toml").write_text(DEVICES.format(capability=capability, oldest=OLDEST) + "".join(declared))
    labels = [f"//:{name}" for name in PROGRAMS]
    devices = ["--device=//:gpu", "--device=//:gpu_ptx"]
    command = [sys.executable, "-m", "modelbuild", "-C", workspace, "build", "--jobs", "1", *devices, *labels]
    subprocess.run(command, check=True)
    index: dict[str, dict[str, str]] = {}
    files: dict[str, Path] = {}
    for name in PROGRAMS:
        inputs = calls(pieces, workspace, name)
        for device in ("gpu", "gpu_ptx"):
            folder = workspace / "modelbuild-out" / device / name / name
            found = {f"bundle/{path.relative_to(folder)}": path for path in folder.rglob("*") if path.is_file()}
            found |= {f"inputs/{path.name}": path for path in inputs}
            digests = {place: hashlib.sha256(path.read_bytes()).hexdigest() for place, path in found.items()}
            files |= {digests[place]: path for place, path in found.items()}
            index[f"{name}{device.removeprefix('gpu')}"] = digests
    (pieces / "index.json").write_text(json.dumps({"capability": capability, "programs": index}))
    with tarfile.open(pieces.with_suffix(".tar.xz"), "w:xz") as archive:
        archive.add(pieces / "index.json", "index.json")
        for digest, path in files.items():
            archive.add(path.resolve(), digest)


def calls(pieces: Path, workspace: Path, name: str) -> list[Path]:
    """Write an input, and eager mode's output for it. The model has the weights that `seed = 0` gives."""
    code = (
        "import sys, numpy, torch, importlib; sys.path.insert(0, sys.argv[1]); file, entry = sys.argv[2].split(':');"
        "torch.manual_seed(0); model = getattr(importlib.import_module(file.removesuffix('.py')), entry)().eval();"
        "torch.manual_seed(1); image = torch.rand(*map(int, sys.argv[3].split(','))) * 255;"
        "numpy.save(sys.argv[4] + '.in.npy', image.numpy());"
        "numpy.save(sys.argv[4] + '.out.npy', model(image).detach().numpy())"
    )
    shape = ",".join(map(str, PROGRAMS[name]))
    subprocess.run([sys.executable, "-c", code, workspace, NAMES[name], shape, pieces / name], check=True)
    return [pieces / f"{name}.in.npy", pieces / f"{name}.out.npy"]


# -- with one -------------------------------------------------------------------------------------------------------


def run(pieces: Path, out: Path) -> int:
    from modelbuild.device_runners import DeviceSpec, parse_address
    from modelbuild.devices.pool import Pool

    with tarfile.open(pieces.with_suffix(".tar.xz")) as archive:
        archive.extractall(pieces)
    index = json.loads((pieces / "index.json").read_text())
    spec = DeviceSpec((parse_address(f"local:?folder={pieces / 'device'}"),), "x86_64", (index["capability"],))
    pool = Pool("//:gpu", spec, REPOSITORY)
    found: dict[str, Any] = {"device": pool.identity, "unmet": pool.unmet, "programs": {}}
    try:
        for name, files in index["programs"].items() if not pool.unmet else ():
            found["programs"][name] = facts(pool, pieces, out, name, files)
    finally:
        pool.close()
        out.mkdir(parents=True, exist_ok=True)
        (out / "results.json").write_text(json.dumps(found, indent=1) + "\n")
        print(json.dumps(found, indent=1))
    wrong = [name for name, each in found["programs"].items() if each.get("problem") or each["error"] > each["allowed"]]
    return int(bool(pool.unmet or wrong))


def facts(pool: Any, pieces: Path, out: Path, name: str, files: Mapping[str, str]) -> dict[str, Any]:
    """Return what the device did with a program; `problem` if it failed."""
    from modelbuild.devices.device import LocalFile
    from modelbuild.errors import ModelbuildError

    given = {
        place: LocalFile(pieces / digest, digest, (pieces / digest).stat().st_size) for place, digest in files.items()
    }
    model = name.removesuffix("_ptx")
    found: dict[str, Any] = {"sent": [], "error": 0.0, "allowed": 0.0}
    try:
        for turn in range(2):
            with pool.session(name, print) as session:
                session.put(given)
                found["sent"].append({"files": session.sent.files, "bytes": session.sent.bytes})
                if turn == 0:
                    continue
                found["before"] = session.state()
                report = process(session, "case", model, ["--output-dir=out/case"])
                measured = process(session, "latency", model, [f"--repeat={REPEAT}", f"--warmup={WARMUP}"])
                found["after"] = session.state()
                session.get(out / name)
        found["latency"] = measured["latency"] | {"peak_memory": measured["peak_memory"]}
        actual = np.load(out / name / "case" / Path(report["outputs"][0]["path"]).name)
        expected = np.load(pieces / files[f"inputs/{model}.out.npy"])
        found["error"] = float(np.abs(actual - expected).max())
        found["allowed"] = 1e-4 * max(1.0, float(np.abs(expected).max()))
        found["largest"] = float(np.abs(expected).max())
        found["first"] = first(pool, out, name, model, given)
    except (ModelbuildError, RuntimeError) as error:
        found["problem"] = str(error)
    return found


def process(session: Any, name: str, model: str, more: list[str], *env: str) -> dict[str, Any]:
    """Run modelbuild-run in a session, with variables of the environment; HERE in them is the job's folder. Returns
    its report."""
    argv = ["bundle/bin/modelbuild-run", "bundle", f"--input=image=inputs/{model}.in.npy", "--json", *more]
    variables = " ".join(each.replace("HERE", "$PWD") for each in env)
    ended = session.run(name, ["sh", "-c", f'export {variables or "X=1"}; exec "$@"', "sh", *argv], LIMIT)
    printed = Path(session.runner.folder) / "jobs" / session.token / "out" / name
    if ended.status:
        raise RuntimeError(f"{name}: exit status {ended.status}: {(printed / 'stderr').read_text()[-600:]}")
    report: dict[str, Any] = json.loads((printed / "stdout").read_text())
    return report


def first(pool: Any, out: Path, name: str, model: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the median milliseconds to a program's first output, by kind, and the size of the driver's cache."""
    from modelbuild.devices.device import local_file

    found: dict[str, Any] = {}
    with pool.session(name, print) as session:
        session.put(given)
        found["first_ms"] = median(session, model, "none", "CUDA_CACHE_DISABLE=1")
        if not name.endswith("_ptx"):
            return found
        process(session, "fill", model, [], "CUDA_CACHE_PATH=HERE/out/cache")
        found["in_place_ms"] = median(session, model, "place", "CUDA_CACHE_PATH=HERE/out/cache")
        session.get(out / f"{name}_cache")
    cache = out / f"{name}_cache" / "cache"
    files = {f"cache/{path.relative_to(cache)}": local_file(path) for path in cache.rglob("*") if path.is_file()}
    found["cache_files"], found["cache_bytes"] = len(files), sum(each.size for each in files.values())
    with pool.session(name, print) as session:
        session.put({**given, **files})
        # The driver writes to its cache, and files of the device's store are read-only.
        session.run("copy", ["cp", "-r", "cache", "own"], LIMIT)
        session.run("mode", ["chmod", "-R", "u+w", "own"], LIMIT)
        found["sent_again_ms"] = median(session, model, "again", "CUDA_CACHE_PATH=HERE/own")
    return found


def median(session: Any, model: str, name: str, env: str) -> float:
    """Return the median milliseconds to the first output, of several processes."""
    return statistics.median(process(session, f"{name}{turn}", model, [], env)["first_ms"] for turn in range(PROCESSES))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["build", "run"])
    parser.add_argument("pieces", type=lambda text: Path(text).resolve())
    parser.add_argument("out", nargs="?", type=lambda text: Path(text).resolve())
    parser.add_argument("--capability", default="9.0")
    given = parser.parse_intermixed_args()
    if given.what == "build":
        build(given.pieces, given.capability)
        return 0
    if given.out is None:
        parser.error("expected the folder OUT")
    return run(given.pieces, given.out)


if __name__ == "__main__":
    sys.exit(main())
