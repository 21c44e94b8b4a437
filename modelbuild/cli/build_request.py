"""Build the targets of a command line. Without click, since a repeated command line is read from its saved form."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelbuild.build.build import build
from modelbuild.build.request import Flags, make_request
from modelbuild.build.snapshot import Snapshots
from modelbuild.cli.problems import ending
from modelbuild.cli.quick.saved_commands import QUIET, save_command
from modelbuild.errors import ExitCode, UsageError
from modelbuild.report import make_reporter
from modelbuild.report.reporter_scope import reporting
from modelbuild.workspace.toml_document import Stamp
from modelbuild.workspace.workspace import WORKSPACE_FILE, find_root, load_workspace

if TYPE_CHECKING:
    from modelbuild.events import Reporter
    from modelbuild.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The targets and flags of a command line, with those of its profile, and its current folder.

    places  the place of each pattern in --target-pattern-file; () without
    acts    whether actions run
    """

    directory: Path
    patterns: tuple[str, ...]
    flags: Flags
    places: tuple[str, ...] = ()
    acts: bool = True

    def encode(self) -> str:
        return json.dumps([str(self.directory), self.patterns, asdict(self.flags)])

    @classmethod
    def decode(cls, text: str) -> CommandLine | None:
        """Return a saved request; None if another version saved it."""
        try:
            directory, patterns, flags = json.loads(text)
            given: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in flags.items()}
            given["profile"] = Stamp(*given["profile"]) if given["profile"] else None
            return cls(Path(directory), tuple(patterns), Flags(**given))
        except (ValueError, TypeError, KeyError):
            return None


def run_build(
    line: CommandLine, arguments: Sequence[str], recorded: Callable[[Reporter, Workspace], Reporter] | None = None
) -> ExitCode:
    """Build, and save the command line `arguments` for the next time, unless `recorded` returns a reporter that writes
    files. Raises ModelbuildError."""
    workspace = load_workspace(find_root(line.directory))
    request = replace(make_request(workspace, line.directory, line.patterns, line.flags), places=line.places)
    history, show = workspace.config.cache_dir, request.show_outputs
    reporter = make_reporter(quiet=request.quiet, as_json=request.json, history=history, show=show)
    if recorded is not None:
        reporter = recorded(reporter, workspace)
    with reporting(reporter):
        if not line.acts:
            from modelbuild.build.plan_only import plan_only

            return plan_only(workspace, request, reporter)
        result = build(workspace, request, reporter)
    # A file of patterns may change, which a saved command would not notice.
    if result.code == ExitCode.OK and not request.json and recorded is None and not line.places:
        show = QUIET if request.quiet else show
        save_command(arguments, Snapshots.of(workspace).path(request), show, request=line.encode())
    return result.code


def repeat_build(text: str, arguments: Sequence[str]) -> ExitCode | None:
    """Build a saved request. Prints errors as run_command() does; returns None if it cannot be read, or if its profile
    may have changed."""
    line = CommandLine.decode(text)
    if line is None or (line.flags.profile is not None and line.flags.profile != _stamp(line.directory)):
        return None
    return ending(lambda: run_build(line, arguments), verbose=False)


def _stamp(folder: Path) -> Stamp | None:
    """Return the stamp of the MODELBUILD.toml above a folder; None if there is none."""
    try:
        return Stamp.of(os.stat(find_root(folder) / WORKSPACE_FILE))
    except (OSError, UsageError):
        return None
