"""`modelbuild verify`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import building
from modelbuild.cli.settings import Settings
from modelbuild.cli.targets.one_target import needing_trust
from modelbuild.errors import ExitCode, UsageError
from modelbuild.report import make_reporter
from modelbuild.report.reporter_scope import reporting
from modelbuild.session.request import Flags, make_request
from modelbuild.workspace.workspace import find_root, load_workspace

if TYPE_CHECKING:
    from modelbuild.trust.documents import Statement

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("verify", short_help=COMMANDS["verify"])
@click.argument("artifact", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--policy", type=_FILE, metavar="FILE", help="Requirements, in TOML.")
@click.option("--attestation", type=_FILE, metavar="FILE", help="Its provenance, by modelbuild attest.")
@click.option("--sbom", type=_FILE, metavar="FILE", help="Its bill of materials, in CycloneDX.")
@click.option("--key", type=_FILE, metavar="FILE", help="Public key that must have signed it, in PEM.")
@click.option("--certificate-chain", multiple=True, type=_FILE, metavar="FILE", help="Authorities of its signer.")
@click.option("--signature", type=_FILE, metavar="FILE", help="Its signature; default: FILE.sig.")
@click.option("--rebuild", is_flag=True, help="Build it again, and compare the bytes with the provenance.")
@building
@click.pass_obj
def command(
    settings: Settings,
    /,
    artifact: Path,
    policy: Path | None,
    attestation: Path | None,
    sbom: Path | None,
    key: Path | None,
    certificate_chain: tuple[Path, ...],
    signature: Path | None,
    rebuild: bool,
    flags: Flags,
) -> int:
    """Verify a program or a bundle: signature, provenance, tests, licences.

    With --key, --certificate-chain or the policy's [signature], the provenance and the bill must also be signed. Prints
    each unmet requirement on a line; the exit code is then 1.
    """

    with needing_trust("verify"):
        from modelbuild.trust.documents import read_statement
        from modelbuild.trust.policy import read_policy
        from modelbuild.trust.signatures import trusted_keys
        from modelbuild.trust.verify import Artifact, verify

    here = settings.directory
    if policy is None and key is None and not certificate_chain and attestation is None:
        raise UsageError("nothing to verify; expected --policy, --key, --certificate-chain or --attestation")
    if rebuild and attestation is None:
        raise UsageError("--rebuild: expected --attestation as well")
    if not (here / artifact).exists():
        raise UsageError(f"{artifact}: no such file")
    rules = read_policy(here / policy) if policy is not None else None
    trusted = trusted_keys([here / key] if key is not None else [], [here / each for each in certificate_chain])
    given = Artifact(
        (here / artifact).resolve(),
        attestation and here / attestation,
        sbom and here / sbom,
        signature and here / signature,
    )
    problems, facts = verify(given, rules, trusted)
    if rebuild and not problems and given.statement is not None:
        problems = _rebuild(here, read_statement(given.statement), flags)
        facts.append("built again with the same bytes")
    for line in problems:
        click.echo(f"error: {line}", err=True)
    if problems:
        return ExitCode.BUILD_FAILED
    for line in (f"{artifact} is verified", *facts):
        click.echo(line)
    return ExitCode.OK


def _rebuild(folder: Path, statement: Statement, flags: Flags) -> list[str]:

    from modelbuild.trust.rebuild import rebuild

    workspace = load_workspace(find_root(folder))
    devices = (statement.device,) if statement.device else flags.devices
    request = make_request(workspace, folder, (statement.target,), replace(flags, devices=devices))
    with reporting(make_reporter(quiet=request.display.only_results, results=sys.stderr)) as reporter:
        return rebuild(workspace, request, reporter, statement)
