"""Arbitrary contents of a workspace's files: the commands that read them end with a documented exit code, and with one
line for an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import strategies as st

from tests.cli.test_hostile_arguments import check_ending, ended
from tests.every_rule import PACKAGE, WORKSPACE, write_files
from tests.hostile import cases, damaged, document, mutated, run_property

ASK = (("info",), ("query", "//...", "--json"), ("cquery", "deps(//...)"), ("aquery", "//...", "--json"))
# A changed MODELBUILD.toml is never built with, because it may name any machine.
FILES = {
    "MODELBUILD.toml": (WORKSPACE, (*ASK, ("query", "//...", "--config=ci"))),
    "BUILD.toml": (PACKAGE, (*ASK, ("build", "//:group", "//:cpu"), ("history", "//:group"), ("explain", "//:cpu"))),
}


@st.composite
def workspaces(draw: st.DrawFn) -> tuple[tuple[str, ...], str, bytes]:
    """Generate a command, a file, and the file's contents."""
    name = draw(st.sampled_from(sorted(FILES)))
    tables, commands = FILES[name]
    changed = mutated(tables).map(lambda changed: document(changed).encode())
    return draw(st.sampled_from(commands)), name, draw(changed | damaged(document(tables).encode()))


@cases(40, 3_000)
def test_any_workspace_is_answered_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, examples: int) -> None:
    write_files(tmp_path)
    monkeypatch.setenv("MODELBUILD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    ordinary = {"MODELBUILD.toml": b"", "BUILD.toml": document(PACKAGE).encode()}

    def holds(case: tuple[tuple[str, ...], str, bytes]) -> None:
        command, name, content = case
        for file, usual in ordinary.items():
            (tmp_path / file).write_bytes(content if file == name else usual)
        check_ending(*ended(command))

    run_property(examples, workspaces(), holds)
