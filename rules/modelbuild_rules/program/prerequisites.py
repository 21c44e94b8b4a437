"""Declare the actions that make the folders which compile steps read besides a partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from modelbuild.api import Context, DerivedArtifact, Output
from modelbuild_rules.backends.backend import Prerequisite


def declare(ctx: Context[Any], needed: Sequence[Prerequisite | None]) -> list[dict[str, DerivedArtifact]]:
    """Return the inputs for each prerequisite. Equal ones share an action."""
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
