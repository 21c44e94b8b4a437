"""`modelbuild check`."""

from __future__ import annotations

import click

from modelbuild.cli.group import Settings
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import building, no_options
from modelbuild.cli.recording import Recording, recording
from modelbuild.session.request import Flags


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
    from modelbuild.api.providers import Check
    from modelbuild.report import make_reporter
    from modelbuild.report.reporter_scope import reporting
    from modelbuild.session.request import make_request
    from modelbuild.session.side_files import build_side_files
    from modelbuild.workspace.workspace import find_root, load_workspace

    workspace = load_workspace(find_root(settings.directory))
    request = make_request(workspace, settings.directory, patterns, flags).keeping_going()
    display, history = request.display, workspace.config.cache_dir
    reporter = make_reporter(quiet=display.quiet, as_json=display.json, history=history)
    reporter = recorded.around(reporter, workspace, settings)
    nothing = f"nothing to check in {' '.join(request.targets.patterns)}; expected targets such as a pte_program"
    with reporting(reporter):
        code, _ = build_side_files(
            workspace, request, reporter, lambda each: each.files if isinstance(each, Check) else (), nothing
        )
    return code
