"""runtime.json: the description of each delegate, written by runtime/archive.py."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def archive(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """runtime/archive.py as a module."""
    monkeypatch.setattr(sys, "path", [str(repository / "runtime"), *sys.path])
    spec = importlib.util.spec_from_file_location("runtime_archive", repository / "runtime/archive.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def files(folder: Path, described: dict[str, Any], *libraries: str) -> dict[str, Path]:
    (folder / "OwnBackend.delegate.json").write_text(json.dumps(described))
    for name in libraries:
        (folder / name).write_text("")
    return {f"lib/{path.name}": path for path in sorted(folder.iterdir())}


OWN = {"libraries": ["libbest.so", "libgood.so"], "device": "cpu"}
FLAVOURS = {**OWN, "flavours": "libgood_*.so", "no_flavour": "needs a flavour"}


@pytest.mark.parametrize(
    ("described", "libraries", "entry"),
    [
        (OWN, ("libgood.so",), {"files": ["lib/OwnBackend.delegate.json", "lib/libgood.so"]}),
        (OWN, ("libgood.so", "libbest.so"), {"files": ["lib/OwnBackend.delegate.json", "lib/libbest.so"]}),
        (
            FLAVOURS,
            ("libgood.so", "libgood_10.so", "libgood_11.so", "libbetter_10.so"),
            {
                "files": ["lib/OwnBackend.delegate.json", "lib/libgood.so"],
                "flavours": ["lib/libgood_10.so", "lib/libgood_11.so"],
                "no_flavour": "needs a flavour",
            },
        ),
        (
            FLAVOURS,
            ("libgood.so",),
            {
                "files": ["lib/OwnBackend.delegate.json", "lib/libgood.so"],
                "flavours": [],
                "no_flavour": "needs a flavour",
            },
        ),
    ],
)
def test_a_backend_has_the_files_that_its_delegate_is_made_of(
    archive: Any, tmp_path: Path, described: dict[str, Any], libraries: tuple[str, ...], entry: dict[str, Any]
) -> None:
    found = files(tmp_path, described, *libraries)
    assert archive.backend_entry(tmp_path / "OwnBackend.delegate.json", found) == ("OwnBackend", entry)


def test_a_delegate_without_its_library_is_an_error(archive: Any, tmp_path: Path) -> None:
    found = files(tmp_path, OWN)
    with pytest.raises(archive.BuildError, match=r"the backend OwnBackend needs libgood\.so, which the"):
        archive.backend_entry(tmp_path / "OwnBackend.delegate.json", found)
