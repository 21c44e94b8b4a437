"""The blob before an engine: as torch_tensorrt writes and reads it, and blobs that are damaged."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from modelbuild_rules.backends.tensorrt.blob_reader import describe, read_engine
from modelbuild_rules.backends.tensorrt.steps.engine.blob import Metadata, write_blob
from modelbuild_rules.backends.tensorrt.steps.engine.torch_tensorrt_private import import_torch_tensorrt

ENGINE = b"ftrt" + bytes(100) + b"accelerators={sm86 sm120 }" + bytes(range(256))


@pytest.fixture(scope="module")
def theirs() -> Any:
    import_torch_tensorrt("rtx")
    from torch_tensorrt.executorch import serialization

    return serialization


@pytest.mark.parametrize("names", [(("a",), ("out",)), (("x", "a longer name", "é"), ("o0", "o1"))])
@pytest.mark.parametrize("device", [0, 3])
@pytest.mark.parametrize("aliased", [False, True])
def test_torch_tensorrt_reads_our_blobs(theirs: Any, tmp_path: Path, names: Any, device: int, aliased: bool) -> None:
    shared = ((names[1][0], names[0][0], "kv_cache_update"),) if aliased else ()
    write_blob(tmp_path / "blob", Metadata(*names, device, "linux_aarch64", shared), memoryview(ENGINE))
    assert (tmp_path / "blob").read_bytes()[:4] == (b"TR02" if aliased else b"TR01")
    engine, metadata = theirs.deserialize_engine((tmp_path / "blob").read_bytes())
    assert bytes(engine) == ENGINE
    assert [binding.name for binding in metadata.io_bindings] == [*names[0], *names[1]]
    assert [binding.is_input for binding in metadata.io_bindings] == [True] * len(names[0]) + [False] * len(names[1])
    assert (metadata.device_id, metadata.target_platform) == (device, "linux_aarch64")
    assert metadata.aliased_io == {out: (given, kind) for out, given, kind in shared}
    assert theirs.serialize_engine(ENGINE, metadata) == (tmp_path / "blob").read_bytes()


@pytest.mark.parametrize("aliased", [{}, {"y": ("x", "user")}])
def test_blobs_of_torch_tensorrt_are_read(theirs: Any, tmp_path: Path, aliased: dict[str, Any]) -> None:
    binding = theirs.TensorRTIOBinding
    metadata = theirs.TensorRTBlobMetadata(
        io_bindings=[binding("x", "float32", [1, 3]), binding("y", "float32", [1], False)],
        aliased_io=aliased,
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
    assert engine.metadata["aliased_io"] == [{"output": "y", "input": "x", "kind": "user"}][: len(aliased)]
    assert engine.warning == ""


@pytest.mark.parametrize(
    ("written", "warning"),
    [
        (b'"device_id":"one"', 'it names the GPU "one" to run on; cuda:0 is assumed'),
        (b'"device_id":-1', "it names the GPU -1 to run on; cuda:0 is assumed"),
        (b'"device_id":null', "it names no GPU to run on; cuda:0 is assumed"),
        (b'"device":7', "it names no GPU to run on; cuda:0 is assumed"),
    ],
)
def test_a_device_that_cannot_be_read_is_the_first_one(tmp_path: Path, written: bytes, warning: str) -> None:
    described = Metadata(("x",), ("y",), 7).json()
    assert b'"device_id":7' in described
    described = described.replace(b'"device_id":7', written)
    offset = (32 + len(described) + 15) & ~15
    header = struct.pack("<4sIIIQ8s", b"TR01", 32, len(described), offset, len(ENGINE), b"\1" + bytes(7))
    (tmp_path / "blob").write_bytes((header + described).ljust(offset, b"\0") + ENGINE)
    engine = read_engine(tmp_path / "blob")
    assert (engine.device, engine.warning) == (0, warning)


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


@pytest.mark.parametrize(
    ("precisions", "text"),
    [
        ((), "bytes for compute capability"),
        (("float16", "tf32"), "bytes in float16, tf32 for compute capability"),
    ],
)
def test_the_types_in_which_it_computes(tmp_path: Path, precisions: tuple[str, ...], text: str) -> None:
    write_blob(tmp_path / "blob", Metadata(("x",), ("y",), precisions=precisions), memoryview(ENGINE))
    found = describe(tmp_path / "blob", 0, (tmp_path / "blob").stat().st_size)
    assert text in found.summary
    assert found.facts["precisions"] == (list(precisions) or None)
