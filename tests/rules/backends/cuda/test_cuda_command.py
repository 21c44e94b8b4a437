"""CUDA programs through the command line: reproducible builds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.rules.backends.cuda.fat_binaries import fat_binaries
from tests.workspace_builder import Workspace

pytestmark = pytest.mark.xdist_group("cuda")


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_program_is_the_same_wherever_it_is_built(repository: Path, know_runtime: Any, tmp_path: Path) -> None:
    made = []
    for folder in (tmp_path / "one", tmp_path / "other/folder"):
        workspace = Workspace(folder)
        workspace.copy_in(repository / "examples")
        know_runtime(workspace.root, workspace.cache, "//models:classifier_cuda")
        ran = workspace.build("//models:classifier_cuda").statuses
        assert [name for name, status in ran.items() if status == "cached"] == ["//models:classifier_cuda#cpp_runtime"]
        made.append(workspace.root / "modelbuild-out/rtx/models/classifier_cuda")
    one, other = (path / "classifier_cuda.pte" for path in made)
    assert one.read_bytes() == other.read_bytes()
    assert str(tmp_path).encode() not in one.read_bytes()
    # One library for both capabilities: SASS for each, and PTX for newer ones.
    images = fat_binaries(one.read_bytes(), tmp_path)
    assert images
    assert {(*sorted(sass), *sorted(ptx)) for sass, ptx in images} == {("sm_86", "sm_89", "sm_86")}
    shown = workspace.run("inspect", str(other), "--json").json
    (part,) = shown["methods"][0]["partitions"]
    assert (part["backend"], part["nodes"], part["target_device"]) == ("CudaBackend", 10, "cuda:0")
    assert part["about"]["capabilities"] == [86, 89]
    assert tuple(map(int, part["about"]["glibc"].split("."))) <= (2, 28)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.timeout(7200)  # four programs, minutes each
def test_the_detector_is_the_same_wherever_it_is_built(repository: Path, know_runtime: Any, tmp_path: Path) -> None:
    names, made = ("detector_cuda", "detector_trt_cuda"), []
    for folder in (tmp_path / "one", tmp_path / "other/folder"):
        workspace = Workspace(folder)
        workspace.copy_in(repository / "examples")
        know_runtime(workspace.root, workspace.cache, "//models:detector_cuda")
        workspace.build(*(f"//models:{name}" for name in names))
        made.append([workspace.root / f"modelbuild-out/rtx/models/{name}/{name}.pte" for name in names])
    for one, other in zip(*made, strict=True):
        assert one.read_bytes() == other.read_bytes()
        report = json.loads((one.parent / "delegation.json").read_text())
        ops = {backend: {n["op"] for n in report["nodes"] if n["backend"] == backend} for backend in report["totals"]}
        assert "aten.nonzero.default" in ops["portable"]
        kinds = {"detector_cuda": {"cuda", "portable"}, "detector_trt_cuda": {"tensorrt", "cuda", "portable"}}
        assert ops.keys() == kinds[one.stem]
