"""The blob before an engine: as torch_tensorrt writes and reads it, and blobs that are damaged."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from modelbuild_rules.steps._trt_blob import Metadata, write_blob
from modelbuild_rules.steps._trt_import import import_torch_tensorrt
from modelbuild_runtime.tensorrt_blob import read_engine

ENGINE = b"ftrt" + bytes(100) + b"accelerators={sm86 sm120 }" + bytes(range(256))


@pytest.fixture(scope="module")
def theirs() -> Any:
    import_torch_tensorrt("rtx")
    from torch_tensorrt.executorch import serialization

    return serialization


@pytest.mark.parametrize("names", [(("a",), ("out",)), (("x", "a longer name", "é"), ("o0", "o1"))])
@pytest.mark.parametrize("device", [0, 3])
def test_what_we_write_they_read(theirs: Any, tmp_path: Path, names: Any, device: int) -> None:
    write_blob(tmp_path / "blob", Metadata(*names, device, "linux_aarch64"), memoryview(ENGINE))
    engine, metadata = theirs.deserialize_engine((tmp_path / "blob").read_bytes())
    assert bytes(engine) == ENGINE
    assert [binding.name for binding in metadata.io_bindings] == [*names[0], *names[1]]
    assert [binding.is_input for binding in metadata.io_bindings] == [True] * len(names[0]) + [False] * len(names[1])
    assert (metadata.device_id, metadata.target_platform) == (device, "linux_aarch64")
    assert theirs.serialize_engine(ENGINE, metadata) == (tmp_path / "blob").read_bytes()


def test_what_they_write_we_read(theirs: Any, tmp_path: Path) -> None:
    binding = theirs.TensorRTIOBinding
    metadata = theirs.TensorRTBlobMetadata(
        io_bindings=[binding("x", "float32", [1, 3]), binding("y", "float32", [1], False)],
        device_id=2,
        target_platform="linux_x86_64",
    )
    blob = theirs.serialize_engine(ENGINE, metadata)
    (tmp_path / "file").write_bytes(b"before" + blob + b"after")
    engine = read_engine(tmp_path / "file", 6, len(blob))
    assert (engine.inputs, engine.outputs, engine.device, engine.platform) == (("x",), ("y",), 2, "linux_x86_64")
    assert engine.compute_capabilities == ("8.6", "12.0")
    assert (tmp_path / "file").read_bytes()[engine.offset : engine.offset + engine.size] == ENGINE
    assert engine.metadata["io_bindings"][0]["shape"] == [1, 3]


def header(**changes: Any) -> bytes:
    fields = {"magic": b"TR01", "begin": 32, "size": 2, "offset": 48, "engine": 16, **changes}
    return struct.pack("<4sIIIQ8s", *fields.values(), b"\1" + bytes(7)) + b"{}".ljust(16) + bytes(16)


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        header()[:31],
        header(magic=b"TRT1"),
        header(begin=8),
        header(size=17),
        header(offset=47),
        header(engine=17),
        header(engine=2**64 - 1),
        header(),  # metadata without bindings
        header().replace(b"{}", b"{?"),
    ],
)
def test_a_damaged_blob(tmp_path: Path, blob: bytes) -> None:
    (tmp_path / "blob").write_bytes(blob)
    with pytest.raises(ValueError):  # noqa: PT011  (each its own message)
        read_engine(tmp_path / "blob")
