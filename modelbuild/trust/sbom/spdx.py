"""A bill of materials as SPDX 2.3, by spdx-tools."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

from spdx_tools.common.spdx_licensing import spdx_licensing
from spdx_tools.spdx.jsonschema.document_converter import DocumentConverter
from spdx_tools.spdx.model import (
    Actor,
    ActorType,
    Checksum,
    ChecksumAlgorithm,
    CreationInfo,
    Document,
    ExternalPackageRef,
    ExternalPackageRefCategory,
    ExtractedLicensingInfo,
    Package,
    PackagePurpose,
    Relationship,
    RelationshipType,
    SpdxNoAssertion,
)

import modelbuild
from modelbuild.trust.sbom.inventory import Inventory, Item, license_ref, spdx_expression

_PURPOSES = {
    "library": PackagePurpose.LIBRARY,
    "data": PackagePurpose.OTHER,
    "model": PackagePurpose.OTHER,
    "file": PackagePurpose.FILE,
    "package": PackagePurpose.LIBRARY,
}
_TARGET = "SPDXRef-target"
_OUTPUT = "SPDXRef-output-"


def spdx_bytes(inventory: Inventory) -> bytes:
    """Return the bill as JSON text that depends on the inventory alone."""
    created = datetime.fromtimestamp(inventory.time or 0, UTC).replace(tzinfo=None)
    document = Document(
        CreationInfo(
            spdx_version="SPDX-2.3",
            spdx_id="SPDXRef-DOCUMENT",
            name=inventory.target,
            document_namespace=f"https://spdx.org/spdxdocs/modelbuild-{inventory.id}",
            creators=[Actor(ActorType.TOOL, f"modelbuild-{modelbuild.__version__}")],
            created=created,
        )
    )
    target = Package(_TARGET, inventory.target, SpdxNoAssertion(), files_analyzed=False)
    # Packages, because a file of SPDX 2.3 needs a SHA-1.
    outputs = [
        Package(
            f"{_OUTPUT}{number}",
            name,
            SpdxNoAssertion(),
            files_analyzed=False,
            checksums=_checksums(sha256),
            primary_package_purpose=PackagePurpose.FILE,
        )
        for number, (name, sha256) in enumerate(sorted(inventory.outputs.items()))
    ]
    packages = [_package(number, item) for number, item in enumerate(inventory.items)]
    document.packages = [target, *outputs, *packages]
    document.relationships = [
        Relationship("SPDXRef-DOCUMENT", RelationshipType.DESCRIBES, _TARGET),
        *(Relationship(_TARGET, RelationshipType.CONTAINS, each.spdx_id) for each in outputs),
        *(_relationship(package, item) for package, item in zip(packages, inventory.items, strict=True)),
    ]
    document.extracted_licensing_info = [
        ExtractedLicensingInfo(ref, text, license_name=text) for ref, text in sorted(_other_licenses(inventory).items())
    ]
    made: Any = DocumentConverter().convert(document)
    return (json.dumps(made, indent=1, sort_keys=True) + "\n").encode()


def _relationship(package: Package, item: Item) -> Relationship:
    if item.kind == "package":
        return Relationship(package.spdx_id, RelationshipType.BUILD_TOOL_OF, _TARGET)
    if item.kind == "file":
        return Relationship(_TARGET, RelationshipType.GENERATED_FROM, package.spdx_id)
    return Relationship(_TARGET, RelationshipType.CONTAINS, package.spdx_id)


def _package(number: int, item: Item) -> Package:
    purl = [
        ExternalPackageRef(ExternalPackageRefCategory.PACKAGE_MANAGER, "purl", reference)
        for reference in ([item.purl] if item.purl else [])
    ]
    facts = [f"{name}: {value}" for name, value in item.properties.items()]
    facts += [f"input {line}" for line in item.inputs] + [f"output {line}" for line in item.outputs]
    facts += [f"dataset {name}" for name in item.datasets]
    if len(item.files) > 1:
        facts += [f"{path} SHA-256 {sha256}" for path, sha256 in item.files.items()]
    address = next((uri for uri in item.uris if re.match(r"https?://", uri)), None)
    return Package(
        f"SPDXRef-{item.kind}-{number}",
        item.name,
        address or SpdxNoAssertion(),
        version=item.version or None,
        files_analyzed=False,
        checksums=_checksums(next(iter(item.files.values()))) if len(item.files) == 1 else [],
        license_declared=_license(item.license),
        license_concluded=SpdxNoAssertion(),
        copyright_text=SpdxNoAssertion(),
        external_references=purl,
        comment="\n".join(facts) or None,
        primary_package_purpose=_PURPOSES[item.kind],
    )


def _checksums(sha256: str) -> list[Checksum]:
    return [Checksum(ChecksumAlgorithm.SHA256, sha256)]


def _license(text: str) -> Any:
    if not text:
        return SpdxNoAssertion()
    return spdx_licensing.parse(spdx_expression(text) or license_ref(text))


def _other_licenses(inventory: Inventory) -> dict[str, str]:
    """Return the licences that SPDX does not list, by identifier."""
    found = {}
    for item in inventory.items:
        expression = spdx_expression(item.license)
        if item.license and not expression:
            found[license_ref(item.license)] = item.license
        for ref in re.findall(r"LicenseRef-[A-Za-z0-9.-]+", expression):
            found[ref] = ref
    return found
