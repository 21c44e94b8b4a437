"""Keys compared across machines, and by their first digits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from modelbuild.errors import UsageError


def test_against_the_dump_of_another_machine(models: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models.build_app()
    models.invoke("explain", "//:app", "--dump", str(tmp_path / "keys.json"))
    monkeypatch.setenv("MODELBUILD_CACHE_DIR", str(tmp_path / "other-cache"))
    here = type(models)(tmp_path / "here")
    here.build_app()
    same = here.explain("--against", str(tmp_path / "keys.json"))
    assert {each["reason"] for each in same["actions"]} == {"unchanged"}
    here.edit("BUILD.toml", "level = 1", "level = 3")
    here.write({"b.w": "7"})
    here.build_app()
    actions = {each["action"]: each for each in here.explain("--against", str(tmp_path / "keys.json"))["actions"]}
    assert [(c["kind"], c["name"]) for c in actions["//:net#export"]["causes"]] == [("input", "b.w")]
    found = [(c["name"], c["old"], c["new"], c["target"]) for c in actions["//:app#compile"]["causes"]]
    assert ("level", 1, 3, "//:fast") in found
    assert "b.w" in [name for name, *_ in found]


@pytest.mark.parametrize("text", ["", "{}", '{"version": 2}', '{"version": 1, "actions": [{}], "targets": {}}'])
def test_a_file_that_is_no_dump(models: Any, tmp_path: Path, text: str) -> None:
    models.build_app()
    (tmp_path / "keys.json").write_text(text)
    with pytest.raises(UsageError, match=r"keys\.json: "):
        models.explain("--against", str(tmp_path / "keys.json"))


def keys(models: Any) -> dict[str, str]:
    return {each["action"]: each["key"] for each in models.explain()["actions"]}


def test_diff_of_two_keys(models: Any) -> None:
    models.build_app()
    old = keys(models)["//:app#compile"]
    models.edit("BUILD.toml", "level = 1", "level = 2")
    models.build_app()
    new = keys(models)["//:app#compile"]
    assert models.invoke("diff", old, new) == "parameter options.level: 1 -> 2\n"
    assert models.invoke("diff", old[:12], old) == "no difference\n"
    found = json.loads(models.invoke("diff", old, new, "--json"))["differences"]
    assert [(each["kind"], each["name"], each["old"], each["new"]) for each in found] == [
        ("parameter", "options.level", 1, 2)
    ]
    with pytest.raises(UsageError, match="no known key begins with 'ffffff'"):
        models.invoke("diff", old, "ffffff")
    with pytest.raises(UsageError, match="'xyz' is not a key"):
        models.invoke("diff", old, "xyz")
