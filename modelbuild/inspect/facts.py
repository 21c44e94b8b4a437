"""Gather the contents of a .pte, and of a delegation.json next to it, as JSON values. Needs no torch."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelbuild.errors import UsageError
from modelbuild.inspect.blobs import Blobs
from modelbuild.inspect.cost import partition_cost
from modelbuild.inspect.delegation import Delegation, Partition, read_delegation

if TYPE_CHECKING:
    from modelbuild_runtime.files.contents import Part
    from modelbuild_runtime.files.pte import Delegate, Value

VERSION = 2


def gather(path: Path, blobs: Blobs | None = None) -> dict[str, Any]:
    """Return every fact of a program; `blobs` describes delegates' blobs. Raises UsageError for a file that is not a
    program or a damaged file next to it, and LoadingError for a backend that fails to describe a blob."""
    blobs = blobs or Blobs()
    try:
        from modelbuild_runtime.describe import describe
        from modelbuild_runtime.errors import ProgramError
        from modelbuild_runtime.files.pte import read_program_file
    except ModuleNotFoundError as error:
        raise UsageError(
            f"inspecting a program needs the package '{error.name}'; expected modelbuild[models]"
        ) from None
    try:
        program = read_program_file(path)
        described = describe(path, _data(path), program)
    except ProgramError as error:
        raise UsageError(str(error)) from None
    facts = described.to_json()
    delegation = read_delegation(path.with_name("delegation.json"))
    for described_method, method in zip(facts["methods"], program.methods, strict=True):
        found = None if delegation is None else delegation.of(method.name)
        del described_method["delegates"]
        described_method["partitions"] = [
            _partition(path, number, delegate, found, _own(described.contents.parts, method.name), blobs)
            for number, delegate in enumerate(method.delegates)
        ]
        estimate = None if found is None else found.estimates.get(method.name)
        described_method["estimate"] = estimate and estimate.model_dump()
        described_method["calls"] = [asdict(call) for call in method.calls]
    left = None if delegation is None else delegation.left()
    # The manifest's other members are among the facts.
    manifest = None if program.manifest is None else {"version": program.manifest.get("version")}
    return {
        "version": VERSION,
        **facts,
        "external": list(program.external),
        "manifest": manifest,
        "left": left,
        "compared": _compared(path.with_name("verified.json")),
    }


def _compared(path: Path) -> int | None:
    """Return the number of calls on which the program was compared with its model; None if there is no such file."""
    try:
        return sum(len(method["calls"]) for method in json.loads(path.read_bytes())["methods"].values())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path}: not the result of a comparison with a model: {error!r}") from None


def _own(parts: Sequence[Part], method: str) -> Sequence[Part]:
    """Return the parts of a method, which have ids such as "encode.p0" in a program with several models."""
    return [part for part in parts if part.id.startswith(f"{method}.")] or parts


def _data(path: Path) -> Sequence[Path]:
    beside = path.with_suffix(".ptd")
    return (beside,) if beside.exists() else ()


def _partition(
    path: Path, number: int, delegate: Delegate, delegation: Delegation | None, parts: Sequence[Part], blobs: Blobs
) -> dict[str, Any]:
    digest = _digest(path, delegate) if parts else ""
    part = next((part for part in parts if part.sha256 == digest), None)
    known = _known(path, delegate, delegation.partitions if delegation is not None else ())
    specs = {key: _text(value) for key, value in delegate.specs}
    return {
        "index": number,
        "id": (part and part.id) or (known and known.id),
        "sha256": part and part.sha256,
        "backend": delegate.backend,
        "bytes": delegate.size,
        "offset": delegate.offset,
        "named_bytes": known and known.named_bytes,
        "nodes": known and known.nodes,
        "operators": known and delegation and _operators(delegation, known),
        "target_device": specs.get("target_device"),
        "specs": specs,
        "arguments": [_value(value) for value in delegate.arguments],
        "blob": blobs.describe(path, delegate),
        "about": known and known.about and known.about.facts(),
        "cost": _cost(known, delegation),
    }


def _cost(partition: Partition | None, delegation: Delegation | None) -> dict[str, Any] | None:
    """Return a partition's cost; None if its backend estimates none."""
    if partition is None or delegation is None or partition.about is None or partition.about.estimate is None:
        return None
    nodes = [node for node in delegation.nodes if node.partition == partition.id]
    return partition_cost(partition.about.estimate, nodes)


def _operators(delegation: Delegation, partition: Partition) -> dict[str, int]:
    """Return the number of a partition's nodes by operator, largest number first."""
    return dict(Counter(node.op for node in delegation.nodes if node.partition == partition.id).most_common())


def _known(path: Path, delegate: Delegate, partitions: Sequence[Partition]) -> Partition | None:
    """Return the partition of a delegate: the partition with its blob's size, and if several have that size, with its
    blob's digest."""
    found = [each for each in partitions if each.processed_bytes == delegate.size]
    if len(found) > 1:
        digest = _digest(path, delegate)
        found = [each for each in found if each.processed_sha256 == digest]
    return found[0] if len(found) == 1 else None


def _digest(path: Path, delegate: Delegate) -> str:
    with path.open("rb") as file:
        file.seek(delegate.offset)
        return hashlib.sha256(file.read(delegate.size)).hexdigest()


def _value(value: Value) -> dict[str, Any]:
    if value.kind != "tensor":
        return {"kind": value.kind, "constant": value.constant}
    return {
        "kind": "tensor",
        "dtype": value.dtype,
        "shape": list(value.sizes),
        "bounded": value.bounded,
        "device": value.device,
    }


def _text(value: bytes) -> str:
    """Return a compile spec's value if it is short text, else its size."""
    text = value.rstrip(b"\0")
    if len(text) <= 80 and text.isascii() and text.decode("ascii").isprintable():
        return text.decode("ascii")
    return f"{len(value)} bytes"
