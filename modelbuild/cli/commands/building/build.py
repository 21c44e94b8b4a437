"""`modelbuild build`."""

from __future__ import annotations

from functools import partial

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
    from modelbuild.cli.build_request import CommandLine, run_build

    found = targeted.patterns(patterns, settings.directory)
    line = CommandLine(settings.directory, found.texts, flags, found.places, targeted.acts)
    around = partial(recorded.around, settings=settings) if recorded.wanted else None
    return run_build(line, settings.arguments, around)
