"""Damaged programs read by Python: a ProgramError, or an unaffected result; never another exception."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from modelbuild.errors import UsageError
from modelbuild.inspect.facts import gather
from modelbuild.inspect.text import lines
from modelbuild_rules.backends.tensorrt.blob_reader import read_engine
from modelbuild_rules.backends.tensorrt.steps.engine.blob import Metadata, write_blob
from modelbuild_runtime import ProgramError
from modelbuild_runtime.files.data_file import check_data_file
from modelbuild_runtime.files.pte import read_program_file
from tests.hostile import cases, damaged, run_property


def read_or_refused(
    examples: int, whole: Sequence[bytes], path: Path, read: Callable[[Path], object], error: type[Exception]
) -> None:
    """Read damaged copies of some files: some are refused in one line, and some are read."""
    refusals = []

    def holds(content: bytes) -> None:
        path.write_bytes(content)
        try:
            read(path)
            refusals.append("")
        except error as refusal:
            refusals.append(str(refusal))

    run_property(examples, st.sampled_from(whole).flatmap(damaged), holds)
    assert [text for text in refusals if "\n" in text] == []
    assert 0 < refusals.count("") < len(refusals)


@cases(400, 20_000)
def test_programs_are_read_or_refused(samples: dict[str, Any], tmp_path: Path, examples: int) -> None:
    """Compare the programs by the output of `modelbuild inspect`."""
    whole = [sample.path.read_bytes() for name, sample in samples.items() if name != "external"]

    def read(path: Path) -> None:
        assert list(lines(gather(path), True))

    read_or_refused(examples, whole, tmp_path / "program.pte", read, UsageError)


@cases(200, 10_000)
def test_data_are_read_or_refused(samples: dict[str, Any], tmp_path: Path, examples: int) -> None:
    whole = [path.read_bytes() for path in samples["external"].path.parent.glob("*.ptd")]
    read_or_refused(examples, whole, tmp_path / "data.ptd", check_data_file, ProgramError)


@cases(200, 10_000)
def test_engines_are_read_or_refused(tmp_path: Path, examples: int) -> None:
    aliased = (("y", "x", "kv_cache_update"),)
    write_blob(tmp_path / "whole", Metadata(("x",), ("y",), 0, "linux_x86_64", aliased), b"accelerators={sm80}" * 4)
    whole = [(tmp_path / "whole").read_bytes()]
    read_or_refused(examples, whole, tmp_path / "blob", read_engine, ValueError)


DEEP = b"[" * 100_000


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


def test_every_byte_counts(samples: dict[str, Any], seal_copy: Callable[[Path, Path], Path], tmp_path: Path) -> None:
    """Damage a program with a manifest: each byte changed, each length, and one additional byte."""
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
    """A small file can describe a tree of any size: here 2,000 methods are the same one, with 2,000 equal values."""

    def vector(items: Sequence[int]) -> bytes:
        return b"".join(item.to_bytes(4, "little") for item in (len(items), *items))

    def table(at: int, fields: dict[int, int]) -> bytes:
        """A vtable of ten fields, then the table, whose fields are offsets to positions in the file."""
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
