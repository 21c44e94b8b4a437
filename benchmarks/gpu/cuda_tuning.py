"""Compare kernels chosen by cost, timed on this machine's GPU, and taken from the resulting tuning file.

    python benchmarks/gpu/cuda_tuning.py build FOLDER RUNTIME [NAME...]
    python benchmarks/gpu/cuda_tuning.py run FOLDER [NAME...]

`build` writes to FOLDER a workspace and programs for each NAME of benchmarks/gpu/cuda_zoo.py: NAME.cost, NAME.tf32,
NAME.gpu, and NAME.file, which is built from the tuning file of NAME.gpu and must have the same bytes. RUNTIME is
build/runtime.tar, or a compressed copy. `run` times all programs in FOLDER (which may contain others), torch's eager
mode and torch.compile, and writes FOLDER/results.jsonl. It needs a GPU, and torch with CUDA for the comparison only.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import cuda_programs
import numpy as np

NAMES = ("resnet18", "vit", "attention_fp16", "attention_bf16", "mlp", "nets")
BUILDS = 240  # seconds for all programs, in parallel
COMPILED = 120  # seconds for torch.compile of all programs, in parallel
TIMED = 30  # seconds to time one mode of torch
MODES = ("eager", "default", "max-autotune-no-cudagraphs")
TUNED = ("resnet18", "vit", "attention_fp16")  # also autotuned by torch, which takes long

BUILD = """
[[torch_model]]
name = "model"
entry = "cuda_zoo.py:make"
kwargs = {{ name = "{name}" }}
srcs = ["cuda_zoo.py", "programs.py", "nets.py"]
inputs = [{inputs}]

[[device_target]]
name = "device"
arch = "x86_64"
compute_capability = ["{capability}"]
"""
PROGRAM = """
[[backend_stack]]
name = "{kind}_stack"
backends = [{{ type = "cuda", min_block_size = 1{more} }}, {{ type = "portable" }}]

[[pte_program]]
name = "{kind}"
model = ":model"
stack = ":{kind}_stack"
device = ":device"
"""
KINDS = {
    "cost": "",
    "tf32": ', precision = "tf32"',
    "gpu": ', build_on = "gpu"',
    "file": ', tuning = "gpu.tuning.json"',
}


def build(folder: Path, runtime: Path, names: list[str]) -> int:
    """Build all programs, with a process per name; they take turns on the GPU. Return 1 if any fails, else 0."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(runtime) as archive:
        archive.extractall(folder / "runtime")
    command = [sys.executable, __file__, "one", str(folder)]
    found = {name: subprocess.Popen([*command, name], start_new_session=True) for name in names}
    end = time.monotonic() + BUILDS
    for process in found.values():
        try:
            process.wait(max(1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
    return int(any(process.wait() for process in found.values()))


def one(folder: Path, name: str) -> int:
    """Build the programs of a name. Return 1 if any is wrong, else 0."""
    from cuda_zoo import calls

    from modelbuild_rules.backends.cuda.steps.kernels.driver import Card

    workspace, capability = folder / "workspaces" / name, Card().capability
    workspace.mkdir(parents=True)
    for source in cuda_programs.SOURCES:
        shutil.copy(source, workspace)
    given = calls(name)[0]
    for place, tensor in enumerate(given):
        np.save(workspace / f"{place}.npy", tensor.numpy())
    tables = [
        f'{{ name = "x{place}", shape = {list(tensor.shape)}, file = "{place}.npy" }}'
        for place, tensor in enumerate(given)
    ]
    shown = BUILD.format(name=name, inputs=", ".join(tables), capability=f"{capability // 10}.{capability % 10}")
    (workspace / "MODELBUILD.toml").touch()
    (workspace / "BUILD.toml").write_text(shown + "".join(PROGRAM.format(kind=k, more=m) for k, m in KINDS.items()))
    (workspace / "gpu.tuning.json").write_text('{"version": 1, "choices": []}\n')
    outputs = workspace / "modelbuild-out/device"
    for kinds in (["cost", "gpu", "tf32"], ["file"]):
        start = time.monotonic()
        command = [sys.executable, "-m", "modelbuild", "-C", str(workspace), "build", "--keep-going", "--jobs", "3"]
        done = subprocess.run([*command, *(f"//:{kind}" for kind in kinds)], capture_output=True, text=True)
        note(folder, f"{name}.{'+'.join(kinds)}", built=done.returncode == 0, seconds=time.monotonic() - start)
        if done.returncode:
            print(f"{name}: {done.stderr[-3000:]}", flush=True)
        for kind in kinds:
            if (outputs / kind).is_dir():
                cuda_programs.lay_out(folder / f"{name}.{kind}", outputs / kind, name)
                (folder / f"{name}.{kind}" / f"{kind}.pte").rename(folder / f"{name}.{kind}/{name}.{kind}.pte")
        tuned = outputs / "gpu/gpu.tuning.json"
        if tuned.is_file():
            shutil.copy(tuned, workspace / "gpu.tuning.json")
            shutil.copy(tuned, folder / f"{name}.tuning.json")
    made = [folder / f"{name}.{kind}/{name}.{kind}.pte" for kind in ("gpu", "file")]
    same = all(file.is_file() for file in made) and made[0].read_bytes() == made[1].read_bytes()
    note(folder, name, same_bytes=same)
    return int(not same)


def run(folder: Path, names: list[str]) -> None:
    """Write each program's difference from eager mode and latency, and torch's latency, one by one."""
    ways = [
        (name, mode, tf32) for name in names for mode in MODES[: 3 if name in TUNED else 2] for tf32 in (False, True)
    ]
    waiting = {way: _started(folder, *way) for way in ways}
    end = time.monotonic() + COMPILED
    while time.monotonic() < end and not all(
        process.poll() is not None or _ready(folder, *way).exists() for way, process in waiting.items()
    ):
        time.sleep(0.2)
    for way, process in waiting.items():
        if not _ready(folder, *way).exists():
            process.kill()
    for path in sorted(folder.glob("*/*.pte")):
        name = path.stem
        note(folder, name, **{**cuda_programs.parity_facts(name, folder), **cuda_programs.latency(path.parent, folder)})
    for (name, mode, tf32), process in waiting.items():
        note(folder, name, torch_mode=mode, tf32=tf32, **_ended(process))


def _started(folder: Path, name: str, mode: str, tf32: bool) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "torch", str(folder), name, mode, str(int(tf32))]
    log = _ready(folder, name, mode, tf32).with_suffix(".log")
    return subprocess.Popen(
        command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log.open("w"), cwd=folder
    )


def _ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Send a waiting process the line to continue. Return the facts that it prints."""
    try:
        text, _ = process.communicate("go\n", TIMED)
        facts: dict[str, Any] = json.loads(text.splitlines()[-1])
        return facts
    except (subprocess.TimeoutExpired, OSError, ValueError, IndexError) as error:
        process.kill()
        return {"problem": repr(error)[:200]}


def _ready(folder: Path, name: str, mode: str, tf32: bool) -> Path:
    return folder / f"torch.{name}.{mode}.{int(tf32)}.ready"


def torch_facts(folder: Path, name: str, mode: str, tf32: bool) -> dict[str, Any]:
    """Return torch's median microseconds, from host to host memory and on the device. After compiling, wait for a line
    before timing."""
    import torch
    from cuda_zoo import calls, make

    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
    module, given = make(name).cuda(), calls(name)[0]
    called = module if mode == "eager" else torch.compile(module, mode=None if mode == "default" else mode)
    device = [each.cuda() for each in given]

    def through() -> None:
        result = called(*(each.cuda() for each in given))
        for each in result if isinstance(result, tuple) else (result,):
            each.cpu()

    with torch.no_grad():
        called(*device)
        _ready(folder, name, mode, tf32).touch()
        sys.stdin.readline()
        return {
            "torch": torch.__version__,
            "us": cuda_programs.median(through, torch),
            "device_us": cuda_programs.median(lambda: called(*device), torch),
        }


def note(folder: Path, program: str, **facts: Any) -> None:
    line = json.dumps({"program": program, **facts})
    print(line, flush=True)
    with (folder / "results.jsonl").open("a") as file:
        file.write(line + "\n")


def main() -> int:
    what, folder, *rest = sys.argv[1:]
    path = Path(folder).resolve()
    if what == "build":
        return build(path, Path(rest[0]), rest[1:] or list(NAMES))
    if what == "one":
        return one(path, rest[0])
    if what == "run":
        run(path, rest or list(NAMES))
    else:
        print(json.dumps(torch_facts(path, rest[0], rest[1], rest[2] == "1")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
