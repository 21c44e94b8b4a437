"""A change of a local module affects the targets whose code imports it, although none of them names its files."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from modelbuild.affected.affected import affected

FILES = {
    "a/BUILD.toml": '[package]\ndefault_visibility = ["//visibility:public"]\n'
    '[[cat]]\nname = "uses"\nsrcs = ["uses.py"]\n[[cat]]\nname = "not"\nsrcs = ["not.py"]\n',
    "a/uses.py": "def f():\n    from lib.net import X\n",
    "a/not.py": "import json\n",
    "b/BUILD.toml": '[[cat]]\nname = "reads"\nsrcs = ["//a:uses"]\n',
}
LIB = {
    "lib/__init__.py": "",
    "lib/net.py": "import deeper\nX = 1\n",
    "lib/data.txt": "",
    "deeper.py": "",
    "alone.py": "",
}


class Local:
    """`folder` is a folder that Python imports from."""

    def __init__(self, repository: Any, folder: Path) -> None:
        self.repository = repository
        self.folder = folder
        repository.write(FILES)
        self.write(LIB)
        repository.commit()

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def touched(self) -> set[str]:
        importlib.invalidate_caches()
        return {each.label for each in affected(self.repository.workspace(), ["//..."], "", "HEAD").targets}


@pytest.fixture(params=["in the repository", "in the workspace"])
def local(repository_of_models: Any, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Local:
    inside = request.param == "in the workspace"
    folder = (repository_of_models.root if inside else repository_of_models.top) / "libs"
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    return Local(repository_of_models, folder)


@pytest.mark.parametrize(
    ("path", "touched"),
    [
        ("lib/net.py", {"//a:uses", "//b:reads"}),
        ("lib/data.txt", {"//a:uses", "//b:reads"}),
        ("deeper.py", {"//a:uses", "//b:reads"}),
        ("alone.py", set()),
    ],
)
def test_importers_are_touched(local: Local, path: str, touched: set[str]) -> None:
    local.write({path: "# edited\nX = 2\n" if path.endswith(".py") else "edited"})
    assert local.touched() == touched


@pytest.mark.parametrize("path", ["lib/new.py", "lib/data/new.bin"])
def test_so_it_is_by_a_file_that_is_new_and_by_one_that_is_gone(local: Local, path: str) -> None:
    local.write({path: ""})
    assert local.touched() == {"//a:uses", "//b:reads"}
    local.repository.commit()
    assert local.touched() == set()
    (local.folder / path).unlink()
    assert local.touched() == {"//a:uses", "//b:reads"}


def test_an_import_that_is_new_touches_as_any_edit_does(local: Local) -> None:
    local.repository.write({"a/not.py": "import alone\n"})
    assert local.touched() == {"//a:not"}
    local.repository.commit()
    local.write({"alone.py": "X = 1\n"})
    assert local.touched() == {"//a:not"}
