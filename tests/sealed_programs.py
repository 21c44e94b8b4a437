"""Programs of executorch's own, with a manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PORTS: dict[str, Any] = {
    "inputs": [
        {"name": "x", "dtype": "float32", "shape": ["n", 4], "dynamic": {"n": {"min": 2, "max": 8}}, "range": [0, 255]},
        {"name": "y", "dtype": "float32", "shape": ["n", 3], "dynamic": {"n": {"min": 2, "max": 8}}, "range": None},
    ],
    "outputs": [
        {"name": "scores", "dtype": "float32", "shape": ["n", 3]},
        {"name": "sums", "dtype": "float32", "shape": ["n"]},
    ],
}
SIGNATURE: dict[str, Any] = {"version": 2, "methods": {"forward": PORTS}}
"""The signature of the sample `dynamic`: inputs x and y, outputs scores and sums."""


def seal_copy(source: Path, target: Path, **facts: Any) -> Path:
    """Write a .pte or .ptd of executorch's own to another path with a manifest, as linking does; return the path."""
    from executorch.exir._serialize._named_data_store import NamedDataStore
    from executorch.exir._serialize._program import PTEFile, deserialize_pte_binary, serialize_pte_binary
    from executorch.exir._serialize.data_serializer import DataEntry, DataPayload
    from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer

    from modelbuild_rules.program.steps.linking.manifest import KEY, key_beside, seal, unsealed

    manifest = unsealed({"version": 1, **facts})
    if source.suffix == ".ptd":
        payload = FlatTensorSerializer().deserialize(source.read_bytes())
        entry = {key_beside(payload.named_data): DataEntry(len(payload.buffers), 1, None)}
        made = FlatTensorSerializer().serialize(
            DataPayload([*payload.buffers, manifest], {**payload.named_data, **entry})
        )
    else:
        file = deserialize_pte_binary(source.read_bytes())
        store = NamedDataStore()
        if file.named_data is not None:
            store.merge_named_data_store(file.named_data)
        store.add_named_data(KEY, manifest)
        named = store.get_named_data_store_output()
        made = serialize_pte_binary(PTEFile(file.program, file.mutable_data, named), extract_delegate_segments=True)
    target.write_bytes(bytes(made))
    seal(target)
    return target
