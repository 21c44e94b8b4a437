"""`modelbuild sbom`."""

from __future__ import annotations

from pathlib import Path

import click

from modelbuild.cli.completion import TARGET
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import building
from modelbuild.cli.settings import Settings
from modelbuild.cli.targets.one_target import evidence_of, needing_trust, write_document
from modelbuild.session.request import Flags


@click.command("sbom", short_help=COMMANDS["sbom"])
@click.argument("target", metavar="TARGET", type=TARGET)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
@building
@click.pass_obj
def command(settings: Settings, /, target: str, output: Path | None, flags: Flags) -> int:
    """Build TARGET and write its bill of materials: CycloneDX 1.6, as JSON.

    Equal outputs have equal bills. Their time is SOURCE_DATE_EPOCH, or else the commit's.
    """

    with needing_trust("sbom"):
        from modelbuild.trust.sbom.cyclonedx import cyclonedx_bytes
        from modelbuild.trust.sbom.inventory import make_inventory

    inventory = make_inventory(evidence_of(settings.directory, target, flags))
    write_document(cyclonedx_bytes(inventory), output and settings.directory / output)
    return 0
