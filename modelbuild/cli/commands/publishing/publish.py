"""`modelbuild publish`."""

from __future__ import annotations

import click

from modelbuild.cli.completion import TARGET
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import building
from modelbuild.cli.publishing import Publication, build_and_publish, publishing
from modelbuild.cli.settings import Settings
from modelbuild.cli.targets.one_target import one_target
from modelbuild.publish.destination import parse_destination
from modelbuild.session.request import Flags


@click.command("publish", short_help=COMMANDS["publish"])
@click.argument("target", metavar="TARGET", type=TARGET)
@publishing
@building
@click.pass_obj
def command(settings: Settings, /, target: str, publication: Publication, flags: Flags) -> int:
    """Build TARGET and publish its files, with their provenance, bill of materials and signatures.

    Files that are there are not uploaded again. The tag, or manifest.json, is last: until then nothing is published.
    """

    destination = parse_destination(publication.to)
    return build_and_publish(
        *one_target(settings.directory, target, flags), publication.at(settings.directory), destination
    )
