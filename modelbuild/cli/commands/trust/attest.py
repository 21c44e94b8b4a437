"""`modelbuild attest`."""

from __future__ import annotations

from pathlib import Path

import click

from modelbuild.cli.completion import TARGET
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import building
from modelbuild.cli.settings import Settings
from modelbuild.cli.targets.one_target import evidence_of, write_document
from modelbuild.session.request import Flags


@click.command("attest", short_help=COMMANDS["attest"])
@click.argument("target", metavar="TARGET", type=TARGET)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
@click.option("--builder", metavar="URI", help="The builder's id; default: this machine's host name.")
@building
@click.pass_obj
def command(settings: Settings, /, target: str, output: Path | None, builder: str | None, flags: Flags) -> int:
    """Build TARGET and write its provenance: an in-toto statement with SLSA's provenance as its predicate.

    Runs no tests. Passed tests are stated with the digests of the files that they tested.
    """
    from modelbuild.trust.provenance import statement_bytes, this_builder

    evidence = evidence_of(settings.directory, target, flags)
    write_document(statement_bytes(evidence, builder or this_builder()), output and settings.directory / output)
    return 0
