"""CUDA programs for devices with aarch64: what is in them, and their host code in qemu."""

from __future__ import annotations

import json
import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelbuild_rules.backend_api.steps.elf import machine, needs
from tests.rules.backends.cuda.fat_binaries import fat_binaries
from tests.runtime.native.aarch64 import EMULATOR, Runtime
from tests.workspace_builder import Workspace

# A library for the C++ of aarch64 and five programs, half a minute each.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.exhaustive,
    pytest.mark.xdist_group("aarch64"),
    pytest.mark.timeout(3600),
]

DEVICES = {"orin": "8.7", "gh200": "9.0", "gb200": "10.0", "thor": "11.0", "spark": "12.1"}
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, x):
        return torch.nn.functional.gelu(self.linear(x))
"""
MODEL = """
[[torch_model]]
name = "model"
entry = "net.py:Net"
inputs = [{ name = "x", shape = [2, 16], dtype = "float32" }]
outputs = ["y"]
[[backend_stack]]
name = "stack"
backends = [{ type = "cuda", min_block_size = 1 }, "portable"]
"""
DEVICE = """
[[device_target]]
name = "{name}"
arch = "aarch64"
compute_capabilities = ["{capability}"]
[[pte_program]]
name = "{name}_program"
model = ":model"
stack = ":stack"
device = ":{name}"
[[runtime_bundle]]
name = "{name}_bundle"
program = ":{name}_program"
runtime = {{ archive = "runtime.tar" }}
"""
# Of the driver's functions that a library calls. Kernels compute nothing.
DRIVER = "int {name}(void) {{ return 0; }}\n"


def library(program: bytes) -> bytes:
    """Return a program from the only compiled library in it on."""
    starts = [each.start() for each in re.finditer(rb"\x7fELF\x02\x01\x01", program)]
    (start,) = (each for each in starts if struct.unpack_from("<H", program, each + 16) == (3,))
    return program[start:]


def test_programs_for_devices_with_aarch64(
    aarch64: Runtime, lay_out_fakes: Callable[..., Any], x: Path, tmp_path: Path
) -> None:
    devices = [DEVICE.format(name=name, capability=capability) for name, capability in DEVICES.items()]
    workspace = Workspace(
        tmp_path / "w", {"MODELBUILD.toml": "", "net.py": NET, "BUILD.toml": "".join([MODEL, *devices])}
    )
    (workspace.root / "runtime.tar").symlink_to(aarch64.archive)
    workspace.build("//...", "--jobs=1")
    gpus = lay_out_fakes(aarch64.folder, (*EMULATOR, "-E", f"LD_LIBRARY_PATH={tmp_path}/driver"))
    (tmp_path / "driver").mkdir()
    for name, capability in DEVICES.items():
        (bundle,) = workspace.root.glob(f"modelbuild-out/*/{name}_bundle/{name}_bundle")
        manifest = json.loads((bundle / "manifest.json").read_text())
        found = {name: manifest["needs"][name] for name in ("machine", "glibc", "nvidia_driver", "missing")}
        assert found == {"machine": "aarch64", "glibc": "2.35", "nvidia_driver": "580", "missing": None}
        assert {machine(path) for path in bundle.rglob("*") if path.is_file()} == {None, "aarch64"}

        program = bundle / f"program/{name}_program.pte"
        host = tmp_path / "library.so"
        host.write_bytes(library(program.read_bytes()))
        assert machine(host) == "aarch64"
        sass = {each for image, _ in fat_binaries(program.read_bytes(), tmp_path) for each in image}
        assert {each.rstrip("a") for each in sass} == {f"sm_{capability.replace('.', '')}"}

        called = sorted(each for each in needs(host).undefined if re.match(r"cu[A-Z]", each))
        assert "cuLaunchKernel" in called
        stub = tmp_path / "driver.c"
        stub.write_text("".join(DRIVER.format(name=each) for each in called))
        make = ["aarch64-linux-gnu-gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", stub, "-o"]
        subprocess.run([*make, tmp_path / "driver/libcuda.so.1"], check=True)
        done = gpus("modelbuild-run", program, f"--input=x={x}", f"--output-dir={tmp_path}/{name}")
        assert done.returncode == 0, done.stderr
        assert np.load(tmp_path / name / "y.npy").shape == (2, 16)
        assert gpus.left_over() == "end blocks=0 streams=0 events=0 graphs=0"
