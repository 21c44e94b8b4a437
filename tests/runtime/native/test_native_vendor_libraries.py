"""Libraries in a bundle that are not part of the runtime: found without LD_LIBRARY_PATH, or refused in one line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelbuild.step import Step, StepError
from modelbuild_rules.bundle.steps.runtime.archive import LaidOut
from modelbuild_rules.bundle.steps.runtime.vendor import lay_out_libraries
from tests.runtime.native.test_native_pte_test import READY, RTX_DELEGATION, RTX_NEEDED, SIGNATURE, pack_fakes
from tests.workspace_builder import Workspace

RTX = "libtensorrt_rtx.so.1"
BUILD = """
[[device_target]]
name = "fake"
arch = "x86_64"
compute_capabilities = ["1.1"]

[[ready_program]]
name = "net"
pte = "net.pte"
device = ":fake"

[[runtime_bundle]]
name = "plain"
program = ":net"
runtime = { archive = "fakes.tar" }

[[runtime_bundle]]
name = "whole"
program = ":net"
runtime = { archive = "fakes.tar", libraries = [
    { file = "vendor/libtensorrt_rtx.so.1", version = "1.6.1.120", license = "A licence", license_file = "terms.txt" },
] }
"""


@pytest.fixture
def workspace(repository: Path, native: Path, trt_programs: dict[str, Path], tmp_path: Path) -> Workspace:
    files = {
        "MODELBUILD.toml": 'rules = ["//tools/rules"]\n',
        "tools/rules/__init__.py": "",
        "tools/rules/steps/__init__.py": "",
        "tools/rules/ready.py": READY,
        "BUILD.toml": BUILD,
        "delegation.json": json.dumps(RTX_DELEGATION),
        "signature.json": json.dumps(SIGNATURE),
        "terms.txt": "Terms.\n",
    }
    made = Workspace(tmp_path, files)
    shutil.copy(trt_programs["headed_rtx"], made.root / "net.pte")
    (made.root / "vendor").mkdir()
    shutil.copy(native / "fakes" / RTX, made.root / "vendor")
    pack = [sys.executable, repository / "runtime/archive.py", "--build", native, "--out", made.root / "runtime.tar"]
    subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
    pack_fakes(made.root / "runtime.tar", made.root / "fakes.tar", [native / "fakes/libcudart.so.13"], flavours=True)
    return made


def run(bundle: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a bundle's program with no other environment."""
    command = [bundle / "run.sh", *arguments]
    return subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)


def bundled(workspace: Workspace, name: str) -> tuple[Path, dict[str, Any]]:
    """Return a bundle that was moved elsewhere, and its manifest."""
    moved = workspace.folder / f"moved_{name}"
    shutil.copytree(next(workspace.root.glob(f"modelbuild-out/*/{name}/{name}")), moved)
    return moved, json.loads((moved / "manifest.json").read_text())


def test_a_bundle_s_flavour_loads_the_bundled_library(workspace: Workspace, x: Path) -> None:
    workspace.build("//:whole", "//:plain")
    whole, manifest = bundled(workspace, "whole")
    assert manifest["needs"]["libraries"] == [{**RTX_NEEDED, "bundled": f"lib/{RTX}"}]
    assert manifest["needs"]["missing"] is None
    assert (manifest["needs"]["nvidia_driver"], manifest["needs"]["compute_capabilities"]) == ("580", ["1.1"])
    licence = {"version": "1.6.1.120", "license": "A licence", "license_file": f"licenses/{RTX}.txt"}
    assert manifest["libraries"] == {f"lib/{RTX}": licence}
    assert manifest["files"].keys() >= {f"lib/{RTX}", f"licenses/{RTX}.txt"}
    assert "cannot run" not in run(whole, "--describe").stdout
    done = run(whole, f"--input=x={x}", f"--output-dir={x.parent}/whole")
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(x.parent / "whole/y.npy"), np.load(x) * 3 + 1)

    # Without the attribute, the device must bring it.
    plain, manifest = bundled(workspace, "plain")
    assert manifest["needs"]["libraries"] == [{**RTX_NEEDED, "bundled": None}]
    missing = f"the device must have TensorRT-RTX 1.6.1 ({RTX}) in LD_LIBRARY_PATH or in the system's folders"
    assert manifest["needs"]["missing"] == missing
    assert manifest["libraries"] == {}
    assert f"# {missing}.\n" in (plain / "run.sh").read_text()
    assert f"cannot run it: the engine needs TensorRT-RTX 1.6.1: found no {RTX} beside the runtime" in (
        run(plain, "--describe").stdout
    )
    assert run(plain, f"--input=x={x}").returncode == 1
    assert run(plain, f"--input=x={x}", LD_LIBRARY_PATH=str(workspace.root / "vendor")).returncode == 0


def test_a_library_that_does_not_fit_is_refused_with_its_place(workspace: Workspace) -> None:
    workspace.edit("BUILD.toml", 'version = "1.6.1.120"', 'version = "1.6.0.5"')
    ended = workspace.build("//:whole", code=1)
    line = "BUILD.toml:21:5: libtensorrt_rtx.so.1 is version 1.6.0.5; expected TensorRT-RTX 1.6.1 or a newer 1.x"
    assert line in ended.err + ended.out


def refused(
    file: Path, folder: Path, version: str = "1.6.1", arch: str = "x86_64", needed: Mapping[str, Any] = RTX_NEEDED
) -> str:
    """Return why a library cannot be laid out."""
    (folder / "lib").mkdir(exist_ok=True)
    runtime: Any = {"files": {}}
    params = {"libraries": [{"version": version, "license": "a"}], "library_places": ["BUILD.toml:1:1"]}
    step = Step(params, {"library.0": (file,)}, {}, folder)
    with pytest.raises(StepError) as raised:
        lay_out_libraries(step, LaidOut(runtime, frozenset(), (), arch), [needed] if needed else [], folder)  # type: ignore[list-item]
    assert list((folder / "lib").iterdir()) == []
    return str(raised.value).removeprefix("BUILD.toml:1:1: ")


def test_libraries_that_a_bundle_cannot_use_are_refused_in_one_line(native: Path, tmp_path: Path) -> None:
    library = native / "fakes" / RTX
    other = native / "fakes/libnvinfer.so.10"
    assert (
        refused(library, tmp_path, arch="aarch64")
        == f"{RTX} is for x86_64; expected aarch64, the bundle's architecture"
    )
    assert refused(other, tmp_path) == (
        f"no partition of the program needs libnvinfer.so.10; expected {RTX} (TensorRT-RTX 1.6.1)"
    )
    none = "it needs no library besides the runtime"
    assert refused(library, tmp_path, needed={}) == f"no partition of the program needs {RTX}; {none}"
    newer = "expected TensorRT-RTX 1.6.1 or a newer 1.x"
    assert refused(library, tmp_path, "2.0.0") == f"{RTX} is version 2.0.0; {newer}"
    assert refused(library, tmp_path, "1.6.0") == f"{RTX} is version 1.6.0; {newer}"
    exact = {"product": "TensorRT", "version": "10.16.1", "exact": True, "libraries": ["libnvinfer.so.10"]}
    assert refused(other, tmp_path, "10.16.2", needed=exact) == (
        "libnvinfer.so.10 is version 10.16.2; expected TensorRT 10.16.1"
    )
    # This folder has none of the libraries of a runtime.
    lacking = "libcudart.so.13, libgcc_s.so.1, libstdc++.so.6"
    assert refused(library, tmp_path) == f"{RTX} needs {lacking}, which neither the bundle nor glibc has"
    text = tmp_path / RTX
    text.write_text("nothing")
    assert refused(text, tmp_path) == f"{RTX} is not a library; expected a library for x86_64"
    text.write_bytes(library.read_bytes()[:5000])
    assert refused(text, tmp_path).startswith(f"{RTX} is damaged: ")
