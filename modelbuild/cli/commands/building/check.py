"""`modelbuild check`."""

from __future__ import annotations

import click

from modelbuild.build.request import Flags
from modelbuild.cli.group import Settings
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import building, no_options
from modelbuild.cli.recording import Recording, recording


@click.command("check", short_help=COMMANDS["check"], context_settings={"ignore_unknown_options": True})
@click.argument("patterns", nargs=-1, required=True, metavar="TARGET...")
@recording
@building
@click.pass_obj
def command(settings: Settings, /, patterns: tuple[str, ...], flags: Flags, recorded: Recording) -> int:
    """Check in seconds that programs can be lowered, and print every reason why not.

    Models are exported, and each of their operators is offered to the backends of the stack. Nothing is compiled.
    """
    no_options(patterns)
    from dataclasses import replace

    from modelbuild.api.providers import Check
    from modelbuild.build.request import make_request
    from modelbuild.build.side_files import build_side_files
    from modelbuild.report import make_reporter
    from modelbuild.report.reporter_scope import reporting
    from modelbuild.workspace.workspace import find_root, load_workspace

    workspace = load_workspace(find_root(settings.directory))
    request = replace(make_request(workspace, settings.directory, patterns, flags), keep_going=True)
    reporter = make_reporter(quiet=request.quiet, as_json=request.json, history=workspace.config.cache_dir)
    reporter = recorded.around(reporter, workspace, settings)
    nothing = f"nothing to check in {' '.join(request.patterns)}; expected targets such as a pte_program"
    with reporting(reporter):
        code, _ = build_side_files(
            workspace, request, reporter, lambda each: each.files if isinstance(each, Check) else (), nothing
        )
    return code
