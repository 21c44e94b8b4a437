"""The reporter of `--report FILE.html`, with what it reads of the workspace and the history."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from modelbuild.affected.git import describe_head
from modelbuild.cli.group import Settings
from modelbuild.cli.loaded_rules import extensions_here
from modelbuild.errors import UsageError
from modelbuild.events import ActionFinished
from modelbuild.explain.text import reason_lines
from modelbuild.explain.verdicts import explain_build
from modelbuild.history.action_records import Records
from modelbuild.inspect.blobs import Blobs
from modelbuild.report.comparison import Comparison
from modelbuild.report.page.programs import programs
from modelbuild.report.page.recorder import About, Page, Reason
from modelbuild.workspace.workspace import Workspace

_MOST = 30  # lines of an action's reasons


def page_of_build(path: Path, workspace: Workspace, settings: Settings, comparison: Comparison) -> Page:
    """Return the reporter. Raises UsageError for a file with another suffix, and OSError."""
    check_suffix(path)
    began = time.time()

    def reasons(actions: Mapping[str, ActionFinished]) -> dict[str, Reason]:
        return reasons_of(workspace, actions, began)

    commit, changed = describe_head(workspace.root)
    blobs = Blobs(lambda: extensions_here(settings.directory))
    about = About(
        workspace.root.name,
        settings.arguments,
        commit,
        changed,
        reasons,
        lambda targets: programs(workspace.root, targets, blobs),
        began,
    )
    return Page(path, about, comparison)


def check_suffix(path: Path) -> None:
    """Raise UsageError for a file that a browser would not open as a page."""
    if path.suffix not in (".html", ".htm"):
        raise UsageError(f"{path.name}: expected a file that ends in .html for a report")


def reasons_of(workspace: Workspace, actions: Mapping[str, ActionFinished], since: float) -> dict[str, Reason]:
    """Return why the actions of a build ran or were cached, by id; of none if the history has no build after `since`,
    such as after Ctrl-C."""
    records = Records(workspace.config.cache_dir, workspace.root)
    build = records.newest()
    if build is None or build.at < since:
        return {}
    found: dict[str, Reason] = {}
    for name, verdict in explain_build(records, build.number).items():
        if name in actions:
            lines = list(reason_lines(verdict))
            more = [f"and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
            found[name] = (verdict.reason, [*lines[:_MOST], *more])
    return found
