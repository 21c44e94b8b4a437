"""Folders that compile steps read besides a partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modelbuild.api import Context, DerivedArtifact, Output


@dataclass(frozen=True, slots=True)
class Prerequisite:
    """A folder for compile steps that does not depend on the program.

    step    import name of the step that makes it
    name    its name as an output of that step and an input of compile steps
    params  parameters of the step: JSON values
    tools   distributions that decide its bytes
    """

    step: str
    name: str
    params: Mapping[str, Any]
    tools: tuple[str, ...]


def declare_prerequisites(ctx: Context[Any], needed: Sequence[Prerequisite | None]) -> list[dict[str, DerivedArtifact]]:
    """Return the inputs for each prerequisite, an empty table for None. Equal prerequisites share an action."""
    made: list[dict[str, DerivedArtifact]] = []
    for each in needed:
        first = needed.index(each)
        made.append(made[first] if first < len(made) else _declare(ctx, each))
    return made


def _declare(ctx: Context[Any], needed: Prerequisite | None) -> dict[str, DerivedArtifact]:
    if needed is None:
        return {}
    made = ctx.action(
        needed.step.rpartition(".")[2],
        step=needed.step,
        outputs=[Output(needed.name, needed.name, "tree")],
        params=needed.params,
        tools=needed.tools,
    )
    return {needed.name: made[needed.name]}
