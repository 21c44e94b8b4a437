"""The items of a target's bill of materials, in order."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal
from uuid import NAMESPACE_URL, UUID, uuid5

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from modelbuild.errors import UsageError
from modelbuild.trust.evidence import Evidence, File

Kind = Literal["library", "data", "model", "file", "package"]


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a bill of materials: see modelbuild.api.Component. A `package` decided the bytes, but is not in them;
    a `file` is a source or a download."""

    kind: Kind
    name: str
    version: str = ""
    license: str = ""
    purl: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    uris: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    datasets: Sequence[str] = ()

    @property
    def ref(self) -> str:
        """A name that is unique in the bill of materials."""
        return f"{self.kind}:{self.name}" + (f"@{self.version}" if self.version else "")


@dataclass(frozen=True, slots=True)
class Inventory:
    """A target, the SHA-256 of its files by path, and all items. `id` depends on all of these; `time` is in seconds
    since 1970, None if unknown."""

    target: str
    outputs: Mapping[str, str]
    items: Sequence[Item]
    id: UUID
    time: int | None


def make_inventory(evidence: Evidence) -> Inventory:
    """Return the inventory of a target. Its time is SOURCE_DATE_EPOCH, or else the commit's time. Raises UsageError for
    a SOURCE_DATE_EPOCH that is not a number."""
    return inventory_of(evidence.label, evidence.outputs, _items(evidence), _time(evidence))


def inventory_of(target: str, outputs: Mapping[str, str], items: Iterable[Item], time: int | None) -> Inventory:
    """Return the inventory of files, whose SHA-256 are `outputs`."""
    listed = sorted(set_of(items), key=lambda item: item.ref)
    text = repr((target, sorted(outputs.items()), listed))
    identifier = uuid5(NAMESPACE_URL, f"urn:modelbuild:sbom:{sha256(text.encode()).hexdigest()}")
    return Inventory(target, outputs, listed, identifier, time)


def set_of(items: Iterable[Item]) -> list[Item]:
    """Return the items, only the first item of each ref."""
    found: dict[str, Item] = {}
    for item in items:
        found.setdefault(item.ref, item)
    return list(found.values())


def spdx_expression(text: str) -> str:
    """Return a licence as a canonical SPDX expression; '' if it is not an SPDX expression."""
    try:
        return canonicalize_license_expression(text) if text else ""
    except InvalidLicenseExpression:
        return ""


def _items(evidence: Evidence) -> Iterator[Item]:
    for each in evidence.components:
        yield Item(
            each.kind,
            each.name,
            each.version,
            each.license,
            each.purl,
            dict(sorted(each.files.items())),
            (),
            dict(sorted(each.properties.items())),
            each.inputs,
            each.outputs,
            each.datasets,
        )
    yield from (_file(each) for each in (*evidence.sources, *evidence.downloads))
    for package in evidence.packages:
        yield Item("package", package.name, package.version, package.license, package.purl)


def _file(file: File) -> Item:
    purl = next((re.sub("#.*", "", uri) for uri in file.uris if uri.startswith("pkg:")), "")
    uris = [uri for uri in file.uris if not uri.startswith("pkg:")]
    return Item("file", file.name, "", file.license, purl, {file.name: file.sha256}, uris)


def _time(evidence: Evidence) -> int | None:
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is None:
        return evidence.revision.at if evidence.revision is not None else None
    if not re.fullmatch(r"\d{1,11}", given, re.ASCII):
        raise UsageError(f"SOURCE_DATE_EPOCH={given!r}: expected seconds since 1970")
    return int(given)
