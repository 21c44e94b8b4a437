"""Lower an exported program for ExecuTorch's own kernels and kernel libraries, with the steps of pte_program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelbuild.step import Step

PORTABLE = {"kind": "portable", "partitioning": "", "attributes": {"ops": None}}


@dataclass(frozen=True)
class Built:
    """The program and its delegation.json."""

    pte: Path
    delegation: Path


def build_program(exported: Any, folder: Path) -> Built:
    """Return the program that the steps make of an exported program in a folder."""
    from modelbuild_rules.model.steps.exported.program import save_program
    from modelbuild_rules.program.steps import emit, partition

    for name in ("program", "weights", "residual", "partitions"):
        (folder / name).mkdir()
    save_program(exported, folder / "program", folder / "weights")
    lowered = {name: folder / name for name in ("residual", "partitions", "plan", "report", "notes")}
    inputs = {name: (folder / name,) for name in ("program", "weights")}
    partition.run(Step({"backends": [PORTABLE], "external_weights": False}, inputs, lowered, folder))
    built = Built(folder / "model.pte", folder / "delegation.json")
    linked = {"residual": (lowered["residual"],), "report": (lowered["report"],)}
    outputs = {"pte": built.pte, "delegation": built.delegation}
    emit.run(Step({"partitions": {"forward": []}, "sidecars": {}}, linked, outputs, folder))
    return built
