"""The documents that are published with a target: its provenance, its bill of materials, and signatures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from modelbuild.publish.content import PROVENANCE, SBOM, SIGNATURE_SUFFIX, About, Attachment

if TYPE_CHECKING:
    from modelbuild.trust.evidence import Evidence
    from modelbuild.trust.signatures import SigningKey

_SIGNATURE = "application/vnd.dev.sigstore.bundle.v0.3+json"


def about_of(evidence: Evidence) -> About:
    """Return the licences of a target's parts, and the inputs and outputs of its models."""
    models = [each for each in evidence.components if each.kind == "model"]
    files = {file.license for file in evidence.sources if file.sha256 in evidence.outputs.values()}
    return About(
        licenses=sorted({*files, *(each.license for each in evidence.components)} - {""}),
        inputs=tuple(line for each in models for line in each.inputs),
        outputs=tuple(line for each in models for line in each.outputs),
    )


def provenance_of(evidence: Evidence, builder: str | None) -> Attachment:
    """Return the provenance. `builder` is the builder's URI, by default this machine's."""
    from modelbuild.trust.provenance import statement_bytes, this_builder

    kind = "application/vnd.in-toto+json"
    return Attachment(kind, PROVENANCE, kind, statement_bytes(evidence, builder or this_builder()))


def sbom_of(evidence: Evidence) -> Attachment:
    """Return the bill of materials. Raises ModuleNotFoundError without the extra `trust`."""
    from modelbuild.trust.sbom.cyclonedx import cyclonedx_bytes
    from modelbuild.trust.sbom.inventory import make_inventory

    kind = "application/vnd.cyclonedx+json"
    return Attachment(kind, SBOM, kind, cyclonedx_bytes(make_inventory(evidence)))


def signatures_of(
    outputs: Mapping[str, Path], documents: Sequence[Attachment], key: SigningKey
) -> Iterator[Attachment]:
    """Yield the signature of each output, which is a file or a folder, and of each document. Raises as sign(), and
    ModuleNotFoundError without the extra `trust`."""
    from modelbuild.trust.signatures import sign

    for name, path in outputs.items():
        yield Attachment(_SIGNATURE, f"{name}{SIGNATURE_SUFFIX}", _SIGNATURE, sign(path, key))
    with TemporaryDirectory() as folder:
        for document in documents:
            path = Path(folder, document.name)
            path.write_bytes(document.data)
            yield Attachment(_SIGNATURE, f"{document.name}{SIGNATURE_SUFFIX}", _SIGNATURE, sign(path, key))
