"""The pages of `--report FILE.html`, with facts of the workspace and the history."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from modelbuild.affected.git import describe_head
from modelbuild.cli.settings import Settings
from modelbuild.cli.targets.loaded_rules import extensions_here
from modelbuild.errors import ModelbuildError, UsageError
from modelbuild.events import ActionFinished, TargetBuilt
from modelbuild.explain.text import reason_lines
from modelbuild.explain.verdicts import Verdict, explain_build
from modelbuild.history.action_records import Records
from modelbuild.inspect.blobs import Blobs
from modelbuild.inspect.facts import gather
from modelbuild.inspect.stages import add_stages
from modelbuild.redaction import without_secrets
from modelbuild.report.files.comparison import Comparison
from modelbuild.report.page.html import write
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
    command = without_secrets(shlex.join(["modelbuild", *settings.arguments]))
    blobs = Blobs(lambda: extensions_here(settings.directory))
    found = partial(_programs, workspace.root, blobs)
    return Page(path, About(workspace.root.name, command, commit, changed, reasons, found, began), comparison)


def write_program(path: Path, name: str, facts: dict[str, Any], profile: Mapping[str, Any] | None = None) -> None:
    """Write the page of one program, from the facts that inspect gathers, and a profile of its runs. Raises as
    write_file does."""
    check_suffix(path)
    more = {} if profile is None else {"profile": profile}
    write(path, {"title": name, "programs": [{**_described(facts), "path": name}], **more})


def check_suffix(path: Path) -> None:
    """Raise UsageError for a file that a browser would not open as a page."""
    if path.suffix not in (".html", ".htm"):
        raise UsageError(f"{path.name}: expected a file that ends in .html for a report")


def reasons_of(workspace: Workspace, actions: Mapping[str, ActionFinished], since: float) -> dict[str, Reason]:
    """Return why the actions of a build ran or were cached, by id; empty if the history has no build after `since`,
    such as after Ctrl-C."""
    records = Records(workspace.config.cache_dir, workspace.root)
    build = records.newest()
    if build is None or build.at < since:
        return {}
    verdicts = explain_build(records, build.number)
    return {name: _reason(verdict) for name, verdict in verdicts.items() if name in actions}


def _reason(verdict: Verdict) -> Reason:
    lines = list(reason_lines(verdict))
    more = [f"and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    return verdict.reason, [*lines[:_MOST], *more]


def _programs(root: Path, blobs: Blobs, targets: Iterable[TargetBuilt]) -> Iterator[dict[str, Any]]:
    """Yield each .pte among the outputs of targets, by its path in the workspace at `root`."""
    for target in targets:
        for output in target.outputs:
            if output.endswith(".pte"):
                yield {"label": target.label, "config": target.config, **_program(root / output, blobs), "path": output}


def _program(path: Path, blobs: Blobs) -> dict[str, Any]:
    """Return the facts of a program with its stages; `problem` for a file that cannot be read."""
    try:
        return _described(gather(path, blobs))
    except ModelbuildError as error:
        return {"path": str(path), "problem": str(error)}


def _described(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a program, with its stages instead of its calls."""
    found = add_stages(facts)
    for method in found["methods"]:
        del method["calls"]
    return found
