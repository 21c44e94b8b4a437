"""The targets whose action keys may differ from a base revision."""

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
    """A target that a change affects; `new` if the base lacks it."""

    label: str
    rule: str
    new: bool


@dataclass(frozen=True, slots=True)
class Affected:
    """The affected targets. `everything` is the reason why all targets are affected, or '' if each was compared."""

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
    """Compare the working tree with a revision (see git.find_change). The result contains every target of the patterns
    whose actions or files may differ.

    Raises UsageError for git's errors, and LoadingError for errors in the working tree; after errors in the base,
    targets count as affected.
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
