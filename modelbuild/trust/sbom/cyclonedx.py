"""A bill of materials as CycloneDX 1.6, by cyclonedx-python-lib; model cards, which it lacks, are added to its JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

import modelbuild
from modelbuild.trust.sbom.inventory import Inventory, Item, spdx_expression

_TYPES = {
    "library": ComponentType.LIBRARY,
    "data": ComponentType.DATA,
    "model": ComponentType.MACHINE_LEARNING_MODEL,
    "file": ComponentType.FILE,
    "package": ComponentType.LIBRARY,
}


def cyclonedx_bytes(inventory: Inventory) -> bytes:
    """Return the bill of materials as JSON text that depends only on the inventory."""
    tool = Component(type=ComponentType.APPLICATION, name="modelbuild", version=modelbuild.__version__, bom_ref="tool")
    root = Component(type=ComponentType.APPLICATION, name=inventory.target, bom_ref="target")
    root.components.update(
        Component(type=ComponentType.FILE, name=name, bom_ref=f"output:{name}", hashes=[_hash(sha256)])
        for name, sha256 in inventory.outputs.items()
    )
    metadata = BomMetaData(component=root)
    metadata.tools.components.add(tool)
    bom = Bom(serial_number=inventory.id, metadata=metadata)
    components = {item.ref: _component(item) for item in inventory.items}
    bom.components.update(components.values())
    bom.register_dependency(root, components.values())
    made = json.loads(JsonV1Dot6(bom).output_as_string())
    if inventory.time is None:
        del made["metadata"]["timestamp"]
    else:
        made["metadata"]["timestamp"] = datetime.fromtimestamp(inventory.time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    cards = {item.ref: _model_card(item) for item in inventory.items if item.kind == "model"}
    for each in made.get("components", ()):
        if each["bom-ref"] in cards:
            each["modelCard"] = cards[each["bom-ref"]]
    return (json.dumps(made, indent=1, sort_keys=True) + "\n").encode()


def _component(item: Item) -> Component:
    one = next(iter(item.files.values())) if len(item.files) == 1 else None
    return Component(
        type=_TYPES[item.kind],
        name=item.name,
        version=item.version or None,
        bom_ref=item.ref,
        scope=ComponentScope.EXCLUDED if item.kind == "package" else ComponentScope.REQUIRED,
        purl=PackageURL.from_string(item.purl) if item.purl else None,
        licenses=[_license(item.license)] if item.license else [],
        hashes=[_hash(one)] if one else [],
        external_references=[
            ExternalReference(type=ExternalReferenceType.DISTRIBUTION, url=XsUri(uri)) for uri in item.uris
        ],
        properties=[Property(name=f"modelbuild:{name}", value=value) for name, value in _properties(item)],
    )


def _properties(item: Item) -> Iterator[tuple[str, str]]:
    if item.kind != "model":  # a model's facts are in its card
        yield from item.properties.items()
    if len(item.files) > 1:
        yield from ((f"sha256:{path}", sha256) for path, sha256 in item.files.items())


def _hash(sha256: str) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=sha256)


def _license(text: str) -> LicenseExpression | DisjunctiveLicense:
    expression = spdx_expression(text)
    return LicenseExpression(expression) if expression else DisjunctiveLicense(name=text)


def _model_card(item: Item) -> dict[str, Any]:
    parameters: dict[str, Any] = {
        "inputs": [{"format": line} for line in item.inputs],
        "outputs": [{"format": line} for line in item.outputs],
    }
    if item.datasets:
        parameters["datasets"] = [{"type": "dataset", "name": name} for name in item.datasets]
    properties = [{"name": f"modelbuild:{name}", "value": value} for name, value in item.properties.items()]
    return {"modelParameters": parameters, **({"properties": properties} if properties else {})}
