"""Damaged files read by Python: an error of ours, or nothing that is wrong; never another exception."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from modelbuild_rules.steps._trt_blob import Metadata, write_blob

from modelbuild.errors import UsageError
from modelbuild.inspect.facts import gather
from modelbuild.inspect.text import lines
from modelbuild_runtime import ProgramError
from modelbuild_runtime.data_file import check_data_file
from modelbuild_runtime.pte import read_program_file
from modelbuild_runtime.signature import read_signature
from modelbuild_runtime.tensorrt_blob import read_engine

RUNS = int(os.environ.get("FUZZ_RUNS", "20000")) // 20
EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**63, 2**64 - 1)


def damaged(whole: bytes, source: random.Random) -> bytes:
    """A copy with one to four edits, as tests/runtime/native/fuzz/mutate.hpp makes them."""
    data = bytearray(whole)
    for _ in range(source.randint(1, 4)):
        if not data:
            break
        at = source.randrange(min(len(data), 4096) if source.random() < 0.5 else len(data))
        match source.randrange(6):
            case 0:
                data[at] = source.randrange(256)
            case 1:
                data[at] ^= 1 << source.randrange(8)
            case 2:
                width = 2 ** source.randrange(4)
                data[at : at + width] = (source.choice(EDGES) % 256**width).to_bytes(width, "little")
            case 3:
                del data[at:]
            case 4:
                data[at:] = bytes(len(data) - at)
            case 5:
                data[at:at] = bytes([source.randrange(256)])
    return bytes(data)


def try_damaged(
    whole: Sequence[bytes], path: Path, read: Callable[[Path], object], *errors: type[Exception]
) -> tuple[int, int]:
    """Read damaged copies; returns how many were refused, and how many were read."""
    source = random.Random(1)
    refusals = []
    for number in range(RUNS):
        path.write_bytes(damaged(whole[number % len(whole)], source))
        try:
            read(path)
        except errors as error:
            refusals.append(str(error))
    assert [text for text in refusals if "\n" in text] == []
    return len(refusals), RUNS - len(refusals)


def test_programs_are_read_or_refused(samples: dict[str, Any], tmp_path: Path) -> None:
    """By what `modelbuild inspect` prints of them."""
    whole = [sample.path.read_bytes() for name, sample in samples.items() if name != "external"]
    refused, read = try_damaged(
        whole, tmp_path / "program.pte", lambda path: list(lines(gather(path), True)), UsageError
    )
    assert refused > 0
    assert read > 0


def test_data_are_read_or_refused(samples: dict[str, Any], tmp_path: Path) -> None:
    whole = [path.read_bytes() for path in samples["external"].path.parent.glob("*.ptd")]
    refused, read = try_damaged(whole, tmp_path / "data.ptd", check_data_file, ProgramError)
    assert refused > 0
    assert read > 0


def test_engines_are_read_or_refused(tmp_path: Path) -> None:
    aliased = (("y", "x", "kv_cache_update"),)
    write_blob(
        tmp_path / "whole", Metadata(("x",), ("y",), 0, "linux_x86_64", aliased), b"accelerators={sm80 sm120}" * 4
    )
    whole = [(tmp_path / "whole").read_bytes()]
    refused, read = try_damaged(whole, tmp_path / "blob", read_engine, ValueError)
    assert refused > 0
    assert read > 0


def test_signatures_are_read_or_refused(tmp_path: Path) -> None:
    port = (
        '{"name": "x", "dtype": "float32", "shape": ["b", 4], "dynamic": {"b": {"min": 1, "max": 8}}, "range": [0, 1]}'
    )
    whole = [f'{{"version": 1, "inputs": [{port}], "outputs": [{port}]}}'.encode()]
    refused, read = try_damaged(whole, tmp_path / "signature.json", read_signature, ProgramError)
    assert refused > 0
    assert read > 0


DEEP = b"[" * 100_000


@pytest.mark.parametrize("content", [DEEP, b'{"version": 1, "inputs": [{"shape": [Infinity]}]}', b"[]", b"1" * 5000])
def test_signatures_that_are_json_and_something_else(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "signature.json"
    path.write_bytes(content)
    with pytest.raises(ProgramError, match="not a signature"):
        read_signature(path)


@pytest.mark.parametrize(
    "described", [DEEP, b"7", b'"io_bindings"', b'{"io_bindings": {"name": 1}}', b"{" + b'"a":' * 9]
)
def test_engines_whose_metadata_are_something_else(tmp_path: Path, described: bytes) -> None:
    write_blob(tmp_path / "blob", Metadata(("x",), ("y",)), b"engine")
    whole = (tmp_path / "blob").read_bytes()
    size, at = (int.from_bytes(whole[start : start + 4], "little") for start in (8, 12))
    offset = (32 + len(described) + 15) & ~15
    head = whole[:8] + len(described).to_bytes(4, "little") + offset.to_bytes(4, "little") + whole[16:32]
    assert whole[32 : 32 + size].startswith(b"{")
    (tmp_path / "blob").write_bytes(head + described + bytes(offset - 32 - len(described)) + whole[at:])
    with pytest.raises(ValueError, match="TensorRT delegate's blob"):
        read_engine(tmp_path / "blob")


@pytest.mark.parametrize(
    "text",
    [
        '{"nodes": 1, "partitions": []}',
        '{"nodes": [1], "partitions": []}',
        '{"nodes": [{}], "partitions": []}',
        '{"nodes": [], "partitions": [{"id": "p0"}]}',
        '{"nodes": [], "partitions": [{"processed_bytes": SIZE, "about": [1]}]}',
        '{"nodes": [{"name": "n", "op": "o", "backend": "b", "refused": [1]}], "partitions": []}',
        "[" * 100_000,
    ],
)
def test_a_delegation_that_is_not_ours_is_left_out(text: str, samples: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "program.pte"
    path.write_bytes(samples["xnnpack"].path.read_bytes())
    size = read_program_file(path).methods[0].delegates[0].size
    (tmp_path / "delegation.json").write_text(text.replace("SIZE", str(size)))
    facts = gather(path)
    assert facts["left"] is None
    assert list(lines(facts, True))


def test_every_byte_counts(samples: dict[str, Any], seal_copy: Callable[[Path, Path], Path], tmp_path: Path) -> None:
    """Of a program with a manifest: each byte changed, each length, and a byte too much."""
    path = seal_copy(samples["uint8"].path, tmp_path / "program.pte")
    assert read_program_file(path).manifest == {"version": 1}
    whole = path.read_bytes()
    copies = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    copies += [whole[:size] for size in range(0, len(whole), 7)] + [whole + b"\0", whole[:-8] + bytes(8)]
    for copy in copies:
        path.write_bytes(copy)
        with pytest.raises(ProgramError, match=f"^{path}: (is damaged|not an ExecuTorch program): "):
            read_program_file(path)


def test_tables_that_share_their_parts_are_refused(tmp_path: Path) -> None:
    """A small file can describe a tree of any size: here 2,000 methods are all one, with 2,000 values that are one."""

    def vector(items: Sequence[int]) -> bytes:
        return b"".join(item.to_bytes(4, "little") for item in (len(items), *items))

    def table(at: int, fields: dict[int, int]) -> bytes:
        """A vtable of ten fields, then the table, whose fields are offsets to places in the file."""
        vtable = [(24, 44), *((4 + 4 * number if number in fields else 0,) for number in range(10))]
        start = at + 24
        body = (24).to_bytes(4, "little")
        for number in range(10):
            body += (fields.get(number, 0) - (start + 4 + 4 * number)).to_bytes(4, "little", signed=True)[:4]
        return b"".join(n.to_bytes(2, "little") for entry in vtable for n in entry) + body

    count = 2000
    # Backwards, as offsets point forwards: value, values, method, methods, program.
    places = {"program": 8, "methods": 76, "method": 76 + 4 + 4 * count}
    places["values"] = places["method"] + 68
    places["value"] = places["values"] + 4 + 4 * count
    data = (places["program"] + 24).to_bytes(4, "little") + b"ET12"
    data += table(places["program"], {1: places["methods"]})

    def pointers(at: int, target: int) -> bytes:
        return vector([target - (at + 4 + 4 * number) for number in range(count)])

    data += pointers(places["methods"], places["method"] + 24)
    data += table(places["method"], {2: places["values"]})
    data += pointers(places["values"], places["value"] + 24)
    data += table(places["value"], {})
    path = tmp_path / "shared.pte"
    path.write_bytes(data)
    with pytest.raises(ProgramError, match="its tables share their parts again and again"):
        read_program_file(path)
