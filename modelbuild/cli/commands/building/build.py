"""`modelbuild build`."""

from __future__ import annotations

import click

from modelbuild.build_record.snapshots import Snapshot
from modelbuild.cli.completion import TARGET
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.null_build import QUIET, save_command
from modelbuild.cli.options import building, no_options, options, targeting
from modelbuild.cli.recording import Recording, recording
from modelbuild.cli.settings import Settings
from modelbuild.cli.targets.pattern_file import Targeted
from modelbuild.cli.watch import watching
from modelbuild.errors import ExitCode
from modelbuild.report import make_reporter
from modelbuild.report.reporter_scope import reporting
from modelbuild.session.build import build
from modelbuild.session.request import Flags, make_request
from modelbuild.workspace.flags import GROUP_FLAGS


# Without ignore_unknown_options `-//package:name` would be parsed as flags.
@click.command("build", short_help=COMMANDS["build"], context_settings={"ignore_unknown_options": True})
@click.argument("patterns", nargs=-1, metavar="TARGET...", type=TARGET)
@options(GROUP_FLAGS)
@targeting
@recording
@building
@click.pass_obj
@watching
def command(
    settings: Settings, /, patterns: tuple[str, ...], groups: str, targeted: Targeted, flags: Flags, recorded: Recording
) -> int:
    """Build targets and lay out their outputs in modelbuild-out/.

    TARGET is //package:name, //package, :name, //package/... or //package:all; -TARGET removes earlier targets.
    """
    no_options(patterns)

    workspace = settings.workspace()
    found = targeted.patterns(patterns, settings.directory)
    request = make_request(workspace, settings.directory, found.texts, flags, found.places)
    request = request.of_groups(name for name in groups.split(",") if name)
    display = request.display
    reporter = make_reporter(quiet=display.quiet, as_json=display.json, show=display.outputs)
    with reporting(recorded.around(reporter, workspace, settings)) as reporter:
        if not targeted.acts:
            from modelbuild.session.session import in_session

            return in_session(workspace, request, reporter, lambda each: each.preview(each.make_plan().targets))
        result = build(workspace, request, reporter)
    # A saved command would not notice a change of the pattern file, and would not read the sources.
    repeated = not found.places and not request.means.verify_sources
    if result.code == ExitCode.OK and not request.display.json and not recorded.wanted and repeated:
        record = Snapshot.of(workspace, request.identity()).path
        save_command(settings.arguments, record, QUIET if display.quiet else display.outputs)
    return result.code
