"""CUDA programs through the command line: reproducible builds, and errors with their place in the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.program_build import program_build
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


MODEL = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        rows = torch.sin(x)
        best, _ = torch.topk(rows, 3)
        return best + 1
"""
BUILD = program_build('{ type = "cuda", min_block_size = 1 }, { type = "portable" }', shape="[2, 5000]")
NO_KERNEL = (
    "the CUDA delegate has no kernel for aten.topk.default (node aten_topk_default at net.py:9 (aten.topk.default));"
    ' expected exclude_ops = ["aten.topk.default"] in the stack\'s cuda backend, which leaves them to the next backend'
)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_an_operator_without_a_kernel_is_told_by_its_line(know_runtime: Any, workspace: Workspace) -> None:
    """Rows of more than 4096 are too many for the Triton kernel of top-k."""
    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": BUILD, "net.py": MODEL})
    know_runtime(workspace.root, workspace.cache, "//:program")
    ended = workspace.run("build", "//:program")
    assert ended.code == 1, ended.err
    assert NO_KERNEL in ended.err + ended.out
    # A comment moves the line; the compiled library and the rest of the messages stay the same.
    workspace.edit("net.py", "rows =", "# of each row\n        rows =")
    ended = workspace.run("build", "//:program")
    assert NO_KERNEL.replace(":9 ", ":10 ") in ended.err + ended.out
