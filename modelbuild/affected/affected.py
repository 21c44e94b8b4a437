"""The targets whose action keys can be others than at a base revision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelbuild.affected.git import find_change
from modelbuild.affected.unchanged import changes_local, only_contents

if TYPE_CHECKING:
    from modelbuild.labels import Label
    from modelbuild.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Touched:
    """A target that a change touches, and whether the base had it at all."""

    label: str
    rule: str
    new: bool


@dataclass(frozen=True, slots=True)
class Affected:
    """The answer. `everything` says why all targets are touched, '' where each was compared."""

    base: str
    targets: tuple[Touched, ...]
    deleted: tuple[str, ...]
    everything: str = ""


def affected(
    workspace: Workspace,
    patterns: Sequence[str],
    current: str,
    since: str,
    devices: Sequence[Label] = (),
    exact: bool = False,
) -> Affected:
    """Compare the working tree with a revision (see git.find_change). No target of the patterns whose actions, or whose
    files, can come out differently is left out.

    Raises UsageError for git, LoadingError for what is wrong in the working tree; what is wrong at the base only makes
    targets count as touched.
    """
    change = find_change(workspace.root, since, exact)
    if only_contents(change) and not changes_local(workspace, change):
        from modelbuild.affected.contents import in_working_tree

        touched = in_working_tree(workspace, patterns, current, devices, change)
        if touched is not None:
            return Affected(change.base, tuple(Touched(label, rule, new=False) for label, rule in touched), ())

    from modelbuild.affected.compare import compare

    found, deleted, everything = compare(workspace, patterns, current, devices, change)
    return Affected(change.base, tuple(Touched(*each) for each in found), deleted, everything)
