"""`modelbuild affected` with arbitrary file names in git, lock files and sources."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import strategies as st

from modelbuild.affected.tool_versions import pins
from modelbuild.analysis.rules import forget
from modelbuild.cli.group import cli
from modelbuild.code.step_sources import imported_names, source
from tests.hostile import NASTY, cases, damaged, document, mutated, run_property

BUILD = "".join(f'[[cat]]\nname = "{name}"\nsrcs = ["{name}.py"]\n' for name in ("one", "two"))
ODD = (b"\xff.py", b"\xff.txt", b"a\nb.py", "é\u2028.toml".encode(), b" '\"$(x).py", b"-n.py", b"a\tb.txt")


@pytest.fixture
def repo(repository_of_models: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    repository = repository_of_models
    monkeypatch.setenv("MODELBUILD_CACHE_DIR", str(repository.cache))
    repository.write({"m/BUILD.toml": BUILD, "m/one.py": "1", "m/two.py": "2"})
    for name in ODD:
        Path(os.fsdecode(os.fsencode(repository.root) + b"/m/" + name)).write_text("x")
    repository.commit()
    return repository


def ask(repo: Any) -> list[str]:
    forget("tools_rules")
    source.cache_clear()
    arguments = ["-C", str(repo.root), "affected", "--since", "HEAD", "//m/..."]
    return CliRunner().invoke(cli, arguments, catch_exceptions=False, standalone_mode=False).stdout.split()


def test_odd_names_of_files_are_laid_out_and_compared(repo: Any) -> None:
    """After a change of a BUILD.toml the whole revision is laid out; after a change of a source it is not."""
    assert ask(repo) == []
    repo.write({"m/one.py": "3"})
    assert ask(repo) == ask(repo) == ["//m:one"]
    Path(os.fsdecode(os.fsencode(repo.root) + b"/m/\xff.py")).write_text("changed")
    assert ask(repo) == ["//m:one"]
    repo.write({"m/BUILD.toml": BUILD + '[[cat]]\nname = "three"\nsrcs = ["two.py"]\n'})
    assert ask(repo) == ["//m:one", "//m:three"]


def test_a_repository_whose_path_has_a_line_break(repo: Any, tmp_path: Path) -> None:
    repo.top.rename(tmp_path / "a\nb")
    repo.top = tmp_path / "a\nb"
    repo.root = repo.top / "workspace"
    repo.write({"m/two.py": "4"})
    assert ask(repo) == ["//m:two"]
    repo.git("checkout", "-q", "workspace/m/two.py")
    assert ask(repo) == []


LOCK = {"version": 1, "package": [{"name": "torch", "version": "1"}, {"name": "numpy", "version": "2"}]}


@pytest.mark.parametrize("key", ["name", "version"])
def test_pins_that_are_no_text_are_ignored(key: str) -> None:
    table = {"name": '"torch"', "version": '"1"'} | {key: "0x" + "f" * 5000}
    lines = (f"{name} = {value}" for name, value in table.items())
    assert pins("\n".join(("[[package]]", *lines))) == {}


@cases(150, 5_000)
def test_any_lock_file_has_pins_or_none(examples: int) -> None:
    def holds(text: str) -> None:
        assert all(isinstance(version, str) for version in pins(text).values())

    spoiled = damaged(document(LOCK).encode()) | damaged(b"torch==1.0 ; x\nnumpy[a] == 2\n")
    run_property(examples, mutated(LOCK).map(document) | spoiled.map(lambda data: data.decode(errors="replace")), holds)


SOURCE = b"""
from __future__ import annotations
import os, sys as s
from . import x
if TYPE_CHECKING:
    import never
elif a.b(TYPE_CHECKING, c="d"):
    import neither
else:
    from ..a.b import c, d as e
def f(x: int = -1) -> str:
    return f"{x!r:>{x}}" + "\\N{BULLET}" * (x if x else 0x1F)
"""
DEEP = (b"(" * 5000, b"-" * 100_000 + b"1", b"a = " + b"[" * 150 + b"]" * 150, b"if a:\n" * 200, b"x" + b".x" * 50_000)


@cases(300, 10_000)
def test_any_source_has_imports_or_is_not_python(examples: int) -> None:
    def holds(data: bytes) -> None:
        try:
            found = imported_names(data)
        except SyntaxError as error:
            place = (error.lineno, error.offset)
        else:
            assert all(isinstance(name, str) and level >= 0 for name, level in found)
            return
        assert place[0] is None or place[0] >= 0

    others = st.sampled_from([*DEEP, *(text.encode(errors="replace") for text in NASTY)])
    run_property(examples, damaged(SOURCE) | others, holds)


def test_imports_for_types_alone_do_not_count() -> None:
    names = {name for name, _ in imported_names(SOURCE)}
    assert {"os", "sys", "a.b", "a.b.c", "a.b.d", "x"} <= names
    assert not {"never", "neither"} & names


@pytest.mark.parametrize(
    ("data", "place"),
    [(b"a\n\0b", (2, 1)), (b"\0", (1, 1)), (b"-" * 100_000 + b"1", (1, 1)), (b"a = 1\nb = (", (2, 5))],
)
def test_sources_that_are_not_python_are_reported_with_their_place(data: bytes, place: tuple[int, int]) -> None:
    with pytest.raises(SyntaxError) as caught:
        imported_names(data)
    assert (caught.value.lineno, caught.value.offset) == place
