"""Shared by tests of the CUDA backend: programs lowered and compiled once, an emulator, and the C++ runtime."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from modelbuild.step import Step
from modelbuild_rules.backend_api.steps.cpp_compiler import zig
from modelbuild_rules.model.steps.exported.program import save_program
from modelbuild_rules.program.steps import emit, partition
from tests.rules.xnnpack_steps import compile_xnnpack

HERE = Path(__file__).parent
CUDA: Mapping[str, Any] = {
    "kind": "cuda",
    "partitioning": "modelbuild_rules.backends.cuda.steps.partitioning",
    "attributes": {
        "min_block_size": 1,
        "exclude_ops": [],
        "data_dependent_ops": "take",
        "target_device": "cuda:0",
        "specs": {"emulate_precision_casts": "ON", "triton_kernel_mode": "ON"},
    },
}
PORTABLE: Mapping[str, Any] = {"kind": "portable", "partitioning": "", "attributes": {"ops": None}}
XNNPACK: Mapping[str, Any] = {
    "kind": "xnnpack",
    "partitioning": "modelbuild_rules.backends.xnnpack.steps.partitioning",
    "attributes": {
        "precisions": ["dynamic_quant", "fp32", "static_quant"],
        "per_op_mode": False,
        "exclude_ops": ["aten.sin.default", "aten.mul.Tensor", "aten.add.Tensor"],
        "force_non_static_weights_for_f32_linear": False,
        "lossy": [],
    },
}


def load(path: Path) -> ModuleType:
    """Import a module from its file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def programs() -> Mapping[str, Any]:
    found: Mapping[str, Any] = load(HERE / "programs.py").PROGRAMS
    return found


@dataclass(frozen=True)
class Lowered:
    """The outputs of steps/partition.py for a program."""

    folder: Path

    @property
    def plan(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((self.folder / "plan.json").read_text())
        return found

    @property
    def report(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((self.folder / "report.json").read_text())
        return found

    def taken(self, backend: str | None) -> list[str]:
        """Return the operators of a backend, in order."""
        return [fact["op"] for fact in self.report if fact["backend"] == backend]


def lower(program: Any, backends: Sequence[Mapping[str, Any]], folder: Path, **params: Any) -> Lowered:
    """Run the partition step on an exported program, in a new folder. `params`: more parameters of the step."""
    for name in ("program", "weights", "residual", "partitions"):
        (folder / name).mkdir(parents=True)
    save_program(program, folder / "program", folder / "weights")
    inputs = {"program": (folder / "program",), "weights": (folder / "weights",)}
    partition.run(
        Step(
            root=folder,
            inputs=inputs,
            outputs={
                "residual": folder / "residual",
                "partitions": folder / "partitions",
                "plan": folder / "plan.json",
                "report": folder / "report.json",
                "notes": folder / "notes.txt",
                "state": folder / "state.json",
            },
            params={"backends": list(backends), "external_weights": False, **params},
            cpus=1,
        )
    )
    return Lowered(folder)


class Lowering:
    """Runs the partition step: `lowering(program, [lowering.cuda(), lowering.PORTABLE])`."""

    PORTABLE = PORTABLE
    XNNPACK = XNNPACK

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def __call__(self, program: Any, backends: Sequence[Mapping[str, Any]], **params: Any) -> Lowered:
        self._count += 1
        return lower(program, backends, self._folder / str(self._count), **params)

    @staticmethod
    def cuda(**attributes: Any) -> Mapping[str, Any]:
        """Return a backend's entry with some unusual attributes."""
        return {**CUDA, "attributes": {**CUDA["attributes"], **attributes}}


@pytest.fixture
def lowering(tmp_path: Path) -> Lowering:
    return Lowering(tmp_path)


@dataclass(frozen=True)
class Built:
    """A library in a folder, and the program that it was made of."""

    folder: Path
    calls: list[list[torch.Tensor]]
    expected: list[list[torch.Tensor]]


def compile_partition(part: Path, capabilities: str, runtime: Path, out: Path) -> None:
    """Compile a partition into a new folder."""
    out.mkdir(parents=True)
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(out / "inductor"), "TRITON_CACHE_DIR": str(out / "triton")}
    script = HERE / "compile_partition.py"
    done = subprocess.run(
        [sys.executable, script, part, capabilities, runtime, out],
        env={**os.environ, **caches, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.fixture(scope="session")
def built(
    programs: Mapping[str, Any], cpp_runtime: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Built]:
    """Compiles a program of programs.py, each once, for compute capability 8.6."""
    made: dict[str, Built] = {}

    def build(name: str) -> Built:
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            program, calls, expected = programs[name].make()
            lowered = lower(program, [CUDA, PORTABLE], folder / "lowered")
            (part,) = lowered.plan
            compile_partition(lowered.folder / "partitions" / part["id"], "86", cpp_runtime, folder / "out")
            made[name] = Built(folder / "out", calls, expected)
        return made[name]

    return build


@pytest.fixture(scope="session")
def emulator(builder: Any, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the emulator's libraries."""
    sdk = builder.fetch_sdk(repository / "build/sdk", platform.machine())
    folder = tmp_path_factory.mktemp("emulator")
    load(HERE / "emulator/emulator.py").build(sdk / "torch_tensorrt_executorch_runtime", folder)
    return folder


@pytest.fixture
def run_emulated(emulator: Path) -> Callable[[Built], tuple[list[list[torch.Tensor]], int]]:
    """Runs a library's calls on the emulator; the outputs of each, and how many kernels were launched."""

    def run(built: Built) -> tuple[list[list[torch.Tensor]], int]:
        for call, given in enumerate(built.calls):
            for number, tensor in enumerate(given):
                torch.save(tensor, built.folder / f"in.{call}.{number}.pt")
        (built.folder / "calls.json").write_text(json.dumps([len(given) for given in built.calls]))
        done = subprocess.run(
            [sys.executable, HERE / "emulator/run_library.py", emulator, built.folder],
            env={**os.environ, "LD_PRELOAD": str(emulator / "libcudaem.so.13")},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        outputs = [
            [torch.load(built.folder / f"out.{call}.{number}.pt") for number in range(len(expected))]
            for call, expected in enumerate(built.expected)
        ]
        return outputs, json.loads((built.folder / "launches.json").read_text())

    return run


@pytest.fixture
def pieces(emulator: Path, repository: Path, tmp_path: Path) -> Path:
    """Return a new folder with the C++ runtime and the emulator's libraries in runtime/lib."""
    folder = tmp_path / "pieces"
    (folder / "runtime").mkdir(parents=True)
    shutil.copytree(emulator, folder / "runtime/lib")
    load(HERE / "emulator/emulator.py").copy_runtime(repository / "build/runtime/lib", folder / "runtime/lib")
    return folder


@pytest.fixture
def compile_to(cpp_runtime: Path) -> Callable[[Path, Path], dict[str, Any]]:
    """Compiles a partition into a new folder, for compute capability 8.6; returns its kernels for the emulator."""

    def compile_part(part: Path, out: Path) -> dict[str, Any]:
        compile_partition(part, "86", cpp_runtime, out)
        kernels: dict[str, Any] = json.loads((out / "kernels.json").read_text())
        return kernels

    return compile_part


@pytest.fixture
def run_whole(
    programs: Mapping[str, Any], compile_to: Callable[[Path, Path], dict[str, Any]], pieces: Path, tmp_path: Path
) -> Callable[[str, Sequence[Mapping[str, Any]]], dict[str, Any]]:
    """Compile a program with a stack and run it on the emulator, by the C++ runtime; return the differences."""

    def run(name: str, backends: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        program, calls, expected = programs[name].make()
        lowered = lower(program, backends, tmp_path / "lowered")
        (pieces / name).mkdir(parents=True)
        parts, kernels = [], {}
        for part in lowered.plan:
            source, out = lowered.folder / "partitions" / part["id"], tmp_path / part["id"]
            if part["kind"] == "cuda":
                made = compile_to(source, out)
                assert not made.keys() & kernels.keys()  # the emulator finds kernels by name
                kernels |= made
            else:
                compile_xnnpack(source, out / "compiled")
            parts.append(out / "compiled")
        emit.run(
            Step(
                root=tmp_path,
                inputs={
                    "residual": (lowered.folder / "residual",),
                    "report": (lowered.folder / "report.json",),
                    "parts": tuple(parts),
                },
                outputs={
                    "pte": pieces / name / f"{name}.pte",
                    "delegation": pieces / name / "delegation.json",
                },
                params={"partitions": {"forward": [part["id"] for part in lowered.plan]}, "sidecars": {}},
            )
        )
        (pieces / name / "kernels.json").write_text(json.dumps(kernels))
        values = {f"in.{i}.{n}": each.numpy() for i, call in enumerate(calls) for n, each in enumerate(call)}
        values |= {f"out.{i}.{n}": each.numpy() for i, call in enumerate(expected) for n, each in enumerate(call)}
        np.savez(pieces / name / "calls.npz", **values)
        done = subprocess.run(
            [sys.executable, HERE / "emulator/run_program.py", pieces, name],
            env={**os.environ, "LD_PRELOAD": str(pieces / "runtime/lib/libcudaem.so.13")},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    return run


@pytest.fixture(scope="session")
def timed_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a CUDA driver that only measures times."""
    folder = tmp_path_factory.mktemp("driver")
    source = HERE / "emulator/timed_driver.c"
    zig(["cc", "-shared", "-fPIC", "-O1", "-g0", str(source), "-o", "libcuda.so.1"], folder)
    return folder


@pytest.fixture(scope="session")
def lower_to() -> Callable[[Any, Path], Path]:
    """Lower an exported program with one partition, in a new folder; return that partition."""

    def lower_program(program: Any, folder: Path) -> Path:
        lowered = lower(program, [CUDA, PORTABLE], folder)
        (part,) = lowered.plan
        return folder / "partitions" / str(part["id"])

    return lower_program
