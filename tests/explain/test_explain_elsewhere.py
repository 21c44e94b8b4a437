"""Keys compared across machines."""

from __future__ import annotations

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
