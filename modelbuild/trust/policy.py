"""policy.toml: the requirements that `modelbuild verify` compares an artifact with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modelbuild.errors import UsageError
from modelbuild.trust.licenses import is_known
from modelbuild.workspace.toml_document import Document, read_document
from modelbuild.workspace.toml_table import Table
from modelbuild.workspace.toml_tokens import KeyPath


@dataclass(frozen=True, slots=True)
class Policy:
    """The requirements; None: no requirement of this kind.

    keys, chain  public keys, and certificates of authorities, any of which may have signed
    subjects     names in certificates, as "CN=release,O=Example", any of which may have signed
    targets      labels of targets that the artifact may be of
    builders     ids of builders that may have built it
    clean        whether it must be built from a commit without changes
    tests        labels of tests that must have passed on it
    licenses     SPDX identifiers that its parts may have
    unlicensed   whether parts without a known licence are allowed
    """

    document: Document
    keys: tuple[Path, ...] = ()
    chain: tuple[Path, ...] = ()
    subjects: tuple[str, ...] = ()
    targets: tuple[str, ...] | None = None
    builders: tuple[str, ...] | None = None
    clean: bool = False
    tests: tuple[str, ...] = ()
    licenses: tuple[str, ...] | None = None
    unlicensed: bool = False
    tables: Mapping[str, Any] = field(default_factory=dict)

    def at(self, *path: str | int) -> str:
        """Return the place of a key: `policy.toml:4:1`."""
        keys: KeyPath = path
        return str(self.document.location(keys))

    @property
    def needs_statement(self) -> str:
        """The first table that needs a provenance; '' if no table does."""
        return next((name for name in ("provenance", "tests") if self.tables.get(name)), "")


def read_policy(path: Path) -> Policy:
    """Parse a policy. Raises LoadingError, located, for a file that is not a policy, and UsageError for anything but a
    file."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a file; expected a policy in TOML")
    document, values, _ = read_document(path.parent, path.name)
    top = Table(document, (), values)
    signature, provenance = _table(top, "signature"), _table(top, "provenance")
    tests, licenses = _table(top, "tests"), _table(top, "licenses")
    allowed = licenses.strings("allowed")
    for index, name in enumerate(allowed or ()):
        if not is_known(name):
            message = f"{name!r} is not an SPDX identifier; expected one such as 'Apache-2.0' or 'LicenseRef-Own'"
            raise licenses.error(message, "allowed", index)
    folder = path.parent
    policy = Policy(
        document,
        tuple(folder / key for key in signature.strings("keys") or ()),
        tuple(folder / each for each in signature.strings("certificate_chain") or ()),
        signature.strings("subjects") or (),
        provenance.strings("targets"),
        provenance.strings("builders"),
        bool(provenance.boolean("clean")),
        tests.strings("required") or (),
        allowed,
        bool(licenses.boolean("allow_unlicensed")),
        values,
    )
    for table in (signature, provenance, tests, licenses, top):
        table.finish()
    if signature.values and not (policy.keys or policy.chain):
        raise signature.error("expected 'keys' or 'certificate_chain'")
    if not any(values.values()):
        raise top.error("requires nothing; expected [signature], [provenance], [tests] or [licenses]")
    return policy


def _table(top: Table, name: str) -> Table:
    return top.table(name) or Table(top.document, (name,), {})
