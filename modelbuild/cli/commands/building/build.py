"""`modelbuild build`."""

from __future__ import annotations

import click

from modelbuild.build.request import Flags
from modelbuild.cli.group import Settings
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import building, no_options, targeting
from modelbuild.cli.recording import Recording, recording
from modelbuild.cli.targets.pattern_file import Targeted
from modelbuild.cli.watch import watching


# Without ignore_unknown_options `-//package:name` would be parsed as flags.
@click.command("build", short_help=COMMANDS["build"], context_settings={"ignore_unknown_options": True})
@click.argument("patterns", nargs=-1, metavar="TARGET...")
@targeting
@recording
@building
@click.pass_obj
@watching
def command(
    settings: Settings, /, patterns: tuple[str, ...], targeted: Targeted, flags: Flags, recorded: Recording
) -> int:
    """Build targets and lay out their outputs in modelbuild-out/.

    TARGET is //package:name, //package, :name, //package/... or //package:all; -TARGET removes earlier targets.
    """
    no_options(patterns)
    from dataclasses import replace

    from modelbuild.build.build import build
    from modelbuild.build.request import make_request
    from modelbuild.build.snapshot import Snapshots
    from modelbuild.cli.quick.saved_commands import QUIET, save_command
    from modelbuild.errors import ExitCode
    from modelbuild.report import make_reporter
    from modelbuild.report.reporter_scope import reporting
    from modelbuild.workspace.workspace import find_root, load_workspace

    workspace = load_workspace(find_root(settings.directory))
    found = targeted.patterns(patterns, settings.directory)
    request = replace(make_request(workspace, settings.directory, found.texts, flags), places=found.places)
    history, show = workspace.config.cache_dir, request.show_outputs
    reporter = make_reporter(quiet=request.quiet, as_json=request.json, history=history, show=show)
    with reporting(recorded.around(reporter, workspace, settings)) as reporter:
        if not targeted.acts:
            from modelbuild.build.plan_only import plan_only

            return plan_only(workspace, request, reporter)
        result = build(workspace, request, reporter)
    # A file of patterns may change, which a saved command would not notice.
    if result.code == ExitCode.OK and not request.json and not recorded.wanted and not found.places:
        save_command(settings.arguments, Snapshots.of(workspace).path(request), QUIET if request.quiet else show)
    return result.code
