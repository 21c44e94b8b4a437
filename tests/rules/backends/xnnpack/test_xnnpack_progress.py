"""The progress of a compilation for XNNPACK."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from modelbuild.step import Step, ignore_progress
from modelbuild_rules.backends.xnnpack.steps import compile
from modelbuild_rules.model.steps.exported.program import save_program
from modelbuild_rules.program.steps import partition

STACK = [
    {
        "kind": "xnnpack",
        "partitioning": "modelbuild_rules.backends.xnnpack.steps.partitioning",
        "attributes": {
            "precisions": ["fp32"],
            "per_op_mode": False,
            "exclude_ops": [],
            "force_non_static_weights_for_f32_linear": False,
            "lossy": [],
        },
    }
]


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a partition."""
    folder = tmp_path_factory.mktemp("part")
    names = ("program", "weights", "residual", "partitions")
    for name in names:
        (folder / name).mkdir()
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    save_program(torch.export.export(net, (torch.ones(1, 4),)), folder / "program", folder / "weights")
    inputs = {name: (folder / name,) for name in names[:2]}
    outputs = {name: folder / name for name in (*names[2:], "plan", "report", "notes")}
    partition.run(Step({"backends": STACK, "external_weights": False}, inputs, outputs, folder))
    return folder / "partitions/p0"


def compiled(part: Path, folder: Path, show: Any = ignore_progress) -> bytes:
    folder.mkdir()
    inputs = {"program": (part / "program",)}
    compile.run(Step({"attributes": {}}, inputs, {"code": folder}, folder, show=show))
    return (folder / "processed.bin").read_bytes()


def test_passes_and_operators_are_counted_to_their_total(part: Path, tmp_path: Path) -> None:
    shown: list[str] = []
    compiled(part, tmp_path / "out", shown.append)
    assert shown[0] == "reading the partition"
    assert shown[-1] == "serializing"
    for kind in ("pass", "operator"):
        found = [each.split()[1::2] for each in shown if each.startswith(f"{kind} ")]
        assert found == [[str(number), str(len(found))] for number in range(1, len(found) + 1)]
        assert len(found) >= 3


def test_progress_changes_no_byte_and_stays_in_no_later_compilation(part: Path, tmp_path: Path) -> None:
    shown: list[str] = []
    first = compiled(part, tmp_path / "one", shown.append)
    count = len(shown)
    assert compiled(part, tmp_path / "two") == first
    assert len(shown) == count
