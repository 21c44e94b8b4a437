"""Linking alone: merged blobs, their positions, errors, and cost."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps.compiled import Compiled
from modelbuild_rules.program.steps.linking import flatbuffer, segments
from modelbuild_rules.program.steps.linking.link import Part, Residual, link
from modelbuild_rules.program.steps.linking.manifest import KEY
from modelbuild_rules.program.steps.linking.segments import Blob, Contents, Segments

Entry = tuple[str, bytes, int, bool, Mapping[str, Any] | None]


class Program:
    """The contents of a .pte, read without the project's reader of headers."""

    def __init__(self, path: Path) -> None:
        self.data = path.read_bytes()
        self.base = int.from_bytes(self.data[24:32], "little") if self.data[8:12] == b"eh00" else 0
        self.table = flatbuffer.read_program(self.data)

    def segment(self, index: int) -> bytes:
        segment = self.table.segments[index]
        assert segment.offset % 128 == 0
        return self.data[self.base + segment.offset :][: segment.size]

    @property
    def delegates(self) -> list[Any]:
        return self.table.execution_plan[0].delegates

    @property
    def named(self) -> dict[str, Any]:
        """Without the manifest, which is the last in every program."""
        keys = [entry.key for entry in self.table.named_data]
        assert keys.pop() == KEY
        return {key: entry.segment_index for key, entry in zip(keys, self.table.named_data, strict=False)}


@pytest.fixture
def linked(lowered: Callable[[str], Any], tmp_path: Path) -> Callable[..., Program]:
    """Links the residual program of `multi`, which has two partitions, with parts made up."""

    def run(first: Compiled, second: Compiled, ptd: Path | None = None) -> Program:
        parts = {}
        for id, compiled in (("p0", first), ("p1", second)):
            (tmp_path / id).mkdir()
            compiled.write(tmp_path / id)
            parts[id] = Part.read(tmp_path / id)
        residual = Residual(lowered("multi").folder / "residual/program.pte", (), parts)
        link({"forward": residual}, tmp_path / "out.pte", ptd)
        return Program(tmp_path / "out.pte")

    return run


def entry(key: str, data: bytes, alignment: int = 1, external: bool = True) -> Entry:
    return (key, data, alignment, external, None)


def test_each_delegate_gets_its_blob(linked: Callable[..., Program]) -> None:
    program = linked(Compiled(b"first", ()), Compiled(b"second", ()))
    assert [program.segment(d.processed.index) for d in program.delegates] == [b"first", b"second"]
    assert program.named == {}


def test_equal_blobs_are_one_segment(linked: Callable[..., Program]) -> None:
    program = linked(Compiled(b"same", (entry("a", b"data"),)), Compiled(b"same", (entry("b", b"data"),)))
    assert len({d.processed.index for d in program.delegates}) == 1
    assert program.named["a"] == program.named["b"]
    assert program.segment(program.named["a"]) == b"data"


def test_a_key_of_two_parts_is_there_once(linked: Callable[..., Program]) -> None:
    program = linked(Compiled(b"1", (entry("k", b"data"),)), Compiled(b"2", (entry("k", b"data"), entry("l", b"else"))))
    assert list(program.named) == ["k", "l"]


def test_a_key_with_different_data_is_refused(linked: Callable[..., Program]) -> None:
    with pytest.raises(StepError) as error:
        linked(Compiled(b"1", (entry("k", b"data"),)), Compiled(b"2", (entry("k", b"else!"),)))
    assert str(error.value) == (
        "two partitions have different data 'k' (4 and 5 bytes); expected equal data under equal keys"
    )


def test_alignments_suit_every_user_of_a_blob(linked: Callable[..., Program]) -> None:
    named = (entry("pad", b"x" * 200), entry("a", b"data", alignment=16), entry("b", b"data", alignment=4096))
    program = linked(Compiled(b"1", named), Compiled(b"2", ()))
    assert program.named["a"] == program.named["b"]
    assert program.table.segments[program.named["a"]].offset % 4096 == 0


def test_an_empty_blob_is_inline(linked: Callable[..., Program], tmp_path: Path) -> None:
    program = linked(Compiled(b"", (entry("k", b"data"),)), Compiled(b"second", ()))
    first, second = (d.processed for d in program.delegates)
    assert (first.location, first.index) == (0, 0)
    assert program.segment(second.index) == b"second"
    from executorch.exir._serialize._program import deserialize_pte_binary, serialize_pte_binary

    read = deserialize_pte_binary(program.data)
    assert [bytes(each.data) for each in read.program.backend_delegate_data] == [b"", b"second"]
    assert bytes(serialize_pte_binary(read, extract_delegate_segments=True)) == program.data


def test_code_stays_inside_when_weights_lie_outside(linked: Callable[..., Program], tmp_path: Path) -> None:
    named = (entry("code", b"library", external=False), entry("weights", b"data"))
    program = linked(Compiled(b"1", named), Compiled(b"2", ()), ptd=tmp_path / "out.ptd")
    assert list(program.named) == ["code"]
    assert b"data" in (tmp_path / "out.ptd").read_bytes()
    assert b"library" not in (tmp_path / "out.ptd").read_bytes()


def test_no_weights_to_put_outside(linked: Callable[..., Program], tmp_path: Path) -> None:
    message = "^external_weights is set, but the program has no weights$"
    with pytest.raises(StepError, match=message):
        linked(Compiled(b"1", ()), Compiled(b"2", ()), ptd=tmp_path / "out.ptd")


@pytest.mark.parametrize("in_kernel", [True, False])
def test_blobs_are_copied_whole(in_kernel: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not in_kernel:
        monkeypatch.setattr(segments.os, "copy_file_range", _refuse)
    monkeypatch.setattr(segments, "_CHUNK", 1000)
    data = os.urandom(10_500)
    (tmp_path / "source").write_bytes(data)
    laid_out = Segments(Contents())
    laid_out.add("a", Blob(tmp_path / "source", 500, 10_000))
    laid_out.add("a", Blob(tmp_path / "source", 0, 3))
    laid_out.write(tmp_path / "out", b"head", 256)
    written = (tmp_path / "out").read_bytes()
    assert written[:256] == b"head".ljust(256, b"\0")
    assert written[256:10_256] == data[500:]
    assert laid_out.extents() == [(0, 10_000), (10_112, 3)]
    assert written[10_256:] == b"\0" * 112 + data[:3]


def _refuse(*arguments: Any) -> int:
    raise OSError(18, "Invalid cross-device link")


def test_a_blob_that_ends_early_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"short")
    segments = Segments(Contents())
    segments.add("a", Blob(tmp_path / "source", 0, 6))
    with pytest.raises(EOFError):
        segments.write(tmp_path / "out", b"", 0)


SCRIPT = """
import json, resource, sys
from pathlib import Path
sys.path[:0] = {path!r}
from modelbuild.step import Step
from modelbuild_rules.program.steps import emit
folder = Path({folder!r})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
files = {{"residual": (folder / "residual",), "report": (folder / "report.json",)}}
inputs = {{**files, "parts": tuple(map(Path, {parts!r}))}}
outputs = {{"pte": Path("out.pte"), "delegation": Path("delegation.json")}}
emit.run(Step({{"partitions": {{"forward": ["p0", "p1"]}}, "sidecars": {{}}}}, inputs, outputs, Path(".")))
heavy = sorted(name for name in ("torch", "executorch.exir") if name in sys.modules)
print(json.dumps([heavy, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024]))
"""


def _emit(folder: Path, parts: list[Path], where: Path) -> tuple[list[str], int]:
    script = SCRIPT.format(path=sys.path, folder=str(folder), parts=[str(part) for part in parts])
    done = subprocess.run([sys.executable, "-c", script], cwd=where, capture_output=True, text=True, check=True)
    heavy, grown = json.loads(done.stdout)
    return heavy, grown


def test_emit_imports_no_torch(lowered: Callable[[str], Any], tmp_path: Path) -> None:
    made = lowered("multi")
    heavy, _ = _emit(made.folder, [made.folder / "compiled/p0", made.folder / "compiled/p1"], tmp_path)
    assert heavy == []
    assert (tmp_path / "out.pte").read_bytes() == made.pte.read_bytes()


def test_blobs_are_never_in_memory(lowered: Callable[[str], Any], tmp_path: Path) -> None:
    size = 1 << 30
    Compiled(b"1", (entry("k", b"data"),)).write(_folder(tmp_path / "p0"))
    Compiled(b"2", ()).write(_folder(tmp_path / "p1"))
    os.truncate(tmp_path / "p0/processed.bin", size)
    _, grown = _emit(lowered("multi").folder, [tmp_path / "p0", tmp_path / "p1"], tmp_path)
    assert (tmp_path / "out.pte").stat().st_size > size
    assert grown < 200 << 20


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_peak_memory_is_counted_in_kilobytes() -> None:
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > 10 << 20
