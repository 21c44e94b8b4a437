"""`modelbuild build`."""

from __future__ import annotations

import click

from modelbuild.building.request import Flags
from modelbuild.cli.group import Settings
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import building, no_options
from modelbuild.cli.recording import Recording, recording


# Without ignore_unknown_options `-//package:name` would be read as flags.
@click.command("build", short_help=COMMANDS["build"], context_settings={"ignore_unknown_options": True})
@click.argument("patterns", nargs=-1, required=True, metavar="TARGET...")
@recording
@building
@click.pass_obj
def command(settings: Settings, /, patterns: tuple[str, ...], flags: Flags, recorded: Recording) -> int:
    """Build targets and lay out their outputs below modelbuild-out/.

    TARGET is //package:name, //package, :name, //package/..., //package:all; -TARGET takes out what came before it.
    """
    no_options(patterns)
    from modelbuild.building.build import build
    from modelbuild.building.request import make_request
    from modelbuild.building.snapshot import Snapshots
    from modelbuild.cli.again import remember
    from modelbuild.errors import ExitCode, ModelbuildError
    from modelbuild.report import make_reporter
    from modelbuild.report.events import BuildAborted
    from modelbuild.workspace import find_root, load_workspace

    workspace = load_workspace(find_root(settings.directory))
    request = make_request(workspace, settings.directory, patterns, flags)
    reporter = make_reporter(quiet=request.quiet, as_json=request.json, history=workspace.config.cache_dir)
    reporter = recorded.around(reporter, workspace, settings.directory)
    try:
        result = build(workspace, request, reporter)
    except (ModelbuildError, KeyboardInterrupt) as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        reporter.emit(BuildAborted("interrupted" if interrupted else str(error), interrupted))
        raise
    finally:
        reporter.close()
    if result.code == ExitCode.OK and not request.json and not recorded.wanted:
        remember(settings.arguments, Snapshots.of(workspace).path(request), request.quiet)
    return result.code
