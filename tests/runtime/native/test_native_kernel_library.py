"""The library of modelbuild's own kernels beside the C++ runtime: its description, and runtimes without it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from modelbuild_rules.operators.steps import detection_operators
from tests.portable_program import build_program
from tests.runtime.native.kernel_results import Run


class Suppression(torch.nn.Module):
    def forward(self, boxes: Tensor, scores: Tensor) -> Any:
        return torch.ops.torchvision.nms(boxes, scores, 0.4)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    detection_operators.register()
    exported = torch.export.export(Suppression(), (torch.rand(5, 4), torch.rand(5)))
    return build_program(exported, tmp_path_factory.mktemp("kernel")).pte


def test_a_program_states_its_kernel_library(program: Path, modelbuild_run: Run) -> None:
    line = "needs the kernel library modelbuild_kernels for torchvision::nms.out"
    assert f"\n  {line}\n" in modelbuild_run(program, "--describe").stdout
    facts = json.loads(modelbuild_run(program, "--describe", "--json").stdout)
    assert facts["kernels"] == [{"library": "modelbuild_kernels", "operators": ["torchvision::nms.out"]}]


def test_a_runtime_without_the_library_names_it_in_one_line(
    program: Path, native: Path, lay_out_fakes: Callable[[Path], Any], tmp_path: Path
) -> None:
    laid_out = lay_out_fakes(native)
    library, description = (laid_out.plugins / f"{name}" for name in ("libmodelbuild_kernels.so", DESCRIPTION))
    shutil.move(library, tmp_path)
    done = laid_out("modelbuild-run", program)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    kernel = f"error: {program}: the kernel torchvision::nms.out"
    assert f"{kernel} needs libmodelbuild_kernels.so, which is in none of: {laid_out.root}" in done.stderr
    shutil.move(description, tmp_path)
    done = laid_out("modelbuild-run", program)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    wanted = f"needs the kernel library modelbuild_kernels ({DESCRIPTION}), which is in none of: {laid_out.root}"
    assert f"{kernel} {wanted}" in done.stderr
    found = ["--input=input0=", f"--plugin-dir={tmp_path}"]
    assert "kernel library" not in laid_out("modelbuild-run", program, *found).stderr


DESCRIPTION = "modelbuild_kernels.kernels.json"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "expected 'operators' to list names"),
        ({"libraries": ["libmodelbuild_kernels.so"]}, "expected 'operators' to list names"),
        ({"operators": [1], "libraries": ["libmodelbuild_kernels.so"]}, "expected 'operators' to list names"),
        ({"operators": ["torchvision::nms.out"]}, "expected 'libraries' to list names of files"),
        ({"operators": [], "libraries": ["../a.so"]}, "expected 'libraries' to list names of files"),
    ],
)
def test_a_damaged_description_of_a_library_is_named(
    program: Path, modelbuild_run: Run, tmp_path: Path, content: Any, problem: str
) -> None:
    (tmp_path / "own.kernels.json").write_text(content if isinstance(content, str) else json.dumps(content))
    done = modelbuild_run(program, f"--plugin-dir={tmp_path}")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert f"{tmp_path}/own.kernels.json: does not describe a library of kernels; {problem}" in done.stderr
