"""`modelbuild build`."""

from __future__ import annotations

import click

from modelbuild.build.request import Flags
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
    from modelbuild.cli.build_request import Asked, build_asked

    asked = Asked(settings.directory, patterns, flags)
    return build_asked(asked, settings.arguments, recorded if recorded.wanted else None)
