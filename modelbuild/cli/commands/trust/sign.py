"""`modelbuild sign`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from modelbuild.cli.names import COMMANDS
from modelbuild.cli.settings import Settings
from modelbuild.cli.targets.one_target import needing_trust, signing_key, write_document
from modelbuild.errors import UsageError
from modelbuild.user_files import explained

_FILE = click.Path(dir_okay=False, path_type=Path)
_FORMAT = b"application/vnd.dev.sigstore.bundle"


@click.command("sign", short_help=COMMANDS["sign"])
@click.argument("artifacts", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option("--key", type=_FILE, required=True, metavar="FILE", help="Private key on P-256, in PEM.")
@click.option("--certificate", type=_FILE, metavar="FILE", help="Certificate of the key, in PEM.")
@click.option("--certificate-chain", multiple=True, type=_FILE, metavar="FILE", help="Intermediate certificates.")
@click.pass_obj
def command(
    settings: Settings,
    artifacts: tuple[Path, ...],
    key: Path,
    certificate: Path | None,
    certificate_chain: tuple[Path, ...],
) -> int:
    """Sign files and folders: a program, a bundle, a provenance, a bill. Each signature is in FILE.sig.

    The format is OpenSSF Model Signing. The variable MODELBUILD_KEY_PASSPHRASE decrypts an encrypted key.
    """

    with needing_trust("sign"):
        from modelbuild.trust.signatures import sign, signature_path

    here = settings.directory
    chain = tuple(here / each for each in certificate_chain)
    if chain and certificate is None:
        raise UsageError("--certificate-chain: expected --certificate as well")
    signing = signing_key(here / key, certificate and here / certificate, chain)
    for path in artifacts:
        if not (here / path).exists():
            raise UsageError(f"{path}: no such file")
        made = signature_path((here / path).resolve())
        _check_ours(made)
        write_document(sign((here / path).resolve(), signing), made)
        click.echo(f"Wrote {os.path.relpath(made, here)}")
    return 0


def _check_ours(path: Path) -> None:
    """Raise UsageError for a file that would be replaced and is not a signature of this format."""
    with explained(path):
        if path.exists() and _FORMAT not in path.read_bytes():
            raise UsageError(f"{path} is not a signature of modelbuild; remove it")
