"""Build what a command line asks for: without click, since the same line again is known by what is written down."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelbuild.build.build import build
from modelbuild.build.request import Flags, make_request
from modelbuild.build.snapshot import Snapshots
from modelbuild.cli.problems import ending
from modelbuild.cli.saved_commands import save_command
from modelbuild.errors import ExitCode
from modelbuild.report import make_reporter
from modelbuild.report.reporter_scope import reporting
from modelbuild.workspace.workspace import find_root, load_workspace

if TYPE_CHECKING:
    from modelbuild.cli.recording import Recording


@dataclass(frozen=True, slots=True)
class Asked:
    """What a command line asks for, and the folder that it does so in."""

    directory: Path
    patterns: tuple[str, ...]
    flags: Flags

    def encode(self) -> str:
        return json.dumps([str(self.directory), self.patterns, asdict(self.flags)])

    @classmethod
    def decode(cls, text: str) -> Asked | None:
        """None for what another version wrote."""
        try:
            directory, patterns, flags = json.loads(text)
            given: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in flags.items()}
            return cls(Path(directory), tuple(patterns), Flags(**given))
        except (ValueError, TypeError):
            return None


def build_asked(asked: Asked, arguments: Sequence[str], recorded: Recording | None = None) -> ExitCode:
    """`arguments` are what was typed, to be known again. Raises ModelbuildError."""
    workspace = load_workspace(find_root(asked.directory))
    request = make_request(workspace, asked.directory, asked.patterns, asked.flags)
    reporter = make_reporter(quiet=request.quiet, as_json=request.json, history=workspace.config.cache_dir)
    if recorded is not None:
        reporter = recorded.around(reporter, workspace, asked.directory)
    with reporting(reporter):
        result = build(workspace, request, reporter)
    if result.code == ExitCode.OK and not request.json and recorded is None:
        save_command(arguments, Snapshots.of(workspace).path(request), request.quiet, asked=asked.encode())
    return result.code


def build_again(text: str, arguments: Sequence[str]) -> ExitCode | None:
    """Build what an Asked was written down for. Prints errors as run_command() does; None when it cannot be read."""
    asked = Asked.decode(text)
    return None if asked is None else ending(lambda: build_asked(asked, arguments), verbose=False)
