"""The Python files of an entry: its own, and those of its package that it imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelbuild.analysis.entry_files import EntryFiles
from modelbuild.errors import LoadingError, Location
from modelbuild.loading.loader import Loader
from modelbuild.workspace.workspace import load_workspace

ALL = "import m.a, b\nfrom . import c\nfrom .sub import d\nfrom sub.e import thing\nimport torch.nn, json, other.x\n"


def files(root: Path, sources: dict[str, str], package: str = "m", entry: str = "net.py") -> tuple[str, ...]:
    for path, text in {"MODELBUILD.toml": "", f"{package}/BUILD.toml".lstrip("/"): "", **sources}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    found = EntryFiles(Loader(load_workspace(root), ())).find(package, entry, lambda: Location("BUILD.toml", 3, 1))
    return tuple(path.removeprefix("m/") for path in found)


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        ({"m/net.py": ALL, "m/a.py": "", "m/b.py": "", "m/c.py": ""}, ("net.py", "a.py", "b.py", "c.py")),
        ({"m/net.py": ALL, "m/sub/__init__.py": "", "m/sub/d.py": ""}, ("net.py", "sub/__init__.py", "sub/d.py")),
        ({"m/net.py": ALL, "m/sub/e.py": ""}, ("net.py", "sub/e.py")),
        ({"m/net.py": "import a", "m/a.py": "import b", "m/b.py": "import net"}, ("net.py", "a.py", "b.py")),
        ({"m/net.py": "import a", "m/a.py": "", "a.py": "", "m/x.py": ""}, ("net.py", "a.py")),
        ({"m/net.py": "def f():\n    import a", "m/a.py": ""}, ("net.py", "a.py")),
        ({"m/net.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a", "m/a.py": ""}, ("net.py",)),
        ({"m/net.py": "", "m/__init__.py": "import a", "m/a.py": ""}, ("net.py", "__init__.py", "a.py")),
        (
            {"m/net.py": "from a import *", "m/a/__init__.py": "from .b import c", "m/a/b.py": ""},
            ("net.py", "a/__init__.py", "a/b.py"),
        ),
        # A folder without __init__.py, a file of its name, and both.
        ({"m/net.py": "import a.b", "m/a.py": "", "m/a/b.py": ""}, ("net.py", "a.py", "a/b.py")),
        # Files of another package need a label in `srcs`.
        (
            {"m/net.py": "import m.own.a, other.x", "m/own/a.py": "", "m/own/BUILD.toml": "", "other/x.py": ""},
            ("net.py",),
        ),
        ({"m/net.py": "from .. import a\nfrom ... import b", "a.py": "", "b.py": ""}, ("net.py",)),
        # The action that reads it reports this.
        ({"m/net.py": "import a\n)", "m/a.py": ""}, ("net.py",)),
    ],
)
def test_files(tmp_path: Path, sources: dict[str, str], found: tuple[str, ...]) -> None:
    assert files(tmp_path, sources) == found


def test_an_entry_in_a_folder_of_the_package(tmp_path: Path) -> None:
    sources = {
        "m/deep/net.py": "import a\nfrom ..b import c\nimport m.d",
        "m/deep/a.py": "",
        "m/b.py": "",
        "m/d.py": "",
    }
    assert files(tmp_path, {**sources, "m/a.py": ""}, entry="deep/net.py") == (
        "deep/net.py",
        "b.py",
        "d.py",
        "deep/a.py",
    )


def test_a_package_in_the_root_folder(tmp_path: Path) -> None:
    sources = {"nets/net.py": "import nets.a, b, c", "nets/a.py": "", "nets/b.py": "", "c.py": ""}
    assert files(tmp_path, sources, "", "nets/net.py") == ("nets/net.py", "c.py", "nets/a.py", "nets/b.py")


def test_a_missing_file_is_an_error_at_the_entry(tmp_path: Path) -> None:
    with pytest.raises(LoadingError, match=r"^BUILD.toml:3:1: no file 'nett.py' in //m; did you mean 'net.py'\?$"):
        files(tmp_path, {"m/net.py": ""}, entry="nett.py")


def test_the_stamps_and_folders_that_decided_are_recorded(tmp_path: Path) -> None:
    files(tmp_path, {"m/net.py": "import a.b", "m/a/b.py": ""})
    loader = Loader(load_workspace(tmp_path), ())
    entries = EntryFiles(loader)
    entries.find("m", "net.py", lambda: Location("BUILD.toml", 1, 1))
    assert set(entries.read) == {"m/net.py", "m/a/b.py"}
    assert {"m", "m/a"} <= set(loader.folders_listed())
