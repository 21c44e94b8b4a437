"""A folder of the user's in the place of the cache: each command refuses it in one line and changes nothing in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

CONTENTS = {"tmp/a": "mine", "toolchains/b": "mine", "lock": "mine", "notes": "mine"}


@pytest.fixture
def foreign(workspace: Any, example_rules: dict[str, str]) -> Path:
    """Return the cache's folder, which another program has filled."""
    build = '[[checksums]]\nname = "sums"\nsrcs = ["one.txt"]\n[[py_test]]\nname = "t"\nsrcs = ["test_x.py"]\n'
    workspace.write({**example_rules, "a/BUILD.toml": build, "a/one.txt": "1\n", "a/test_x.py": ""})
    folder = Path(workspace.cache)
    for name, text in CONTENTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    "command",
    [
        "build //...",
        "fetch //...",
        "test //...",
        "clean --expunge",
        "cache gc",
        "cache stat",
        "cache verify",
    ],
)
def test_a_folder_of_the_user_is_refused_and_not_changed(workspace: Any, foreign: Path, command: str) -> None:
    ended = workspace.run(*command.split())
    problem = f"{foreign} has contents, but no CACHEDIR.TAG of modelbuild; expected a missing or empty folder"
    assert (ended.code, ended.err) == (36, f"error: {problem}\n")
    assert {
        str(path.relative_to(foreign)): path.read_text() for path in foreign.rglob("*") if path.is_file()
    } == CONTENTS


def test_doctor_reports_such_a_folder(workspace: Any, foreign: Path) -> None:
    found = workspace.run("doctor", "--json").json["checks"]
    (cache,) = (each for each in found if each["name"] == "cache")
    assert cache["status"] == "error"
    assert cache["text"].startswith(f"{foreign} has contents, but no CACHEDIR.TAG of modelbuild")
    assert sorted(path.name for path in foreign.iterdir()) == ["lock", "notes", "tmp", "toolchains"]
