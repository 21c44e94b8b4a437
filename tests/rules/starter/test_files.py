"""Files of a workspace for a checkpoint: names in it are data, in Python and in TOML."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

import pytest

from modelbuild_rules.starter import Starter, files, from_checkpoint

NAMES = [
    'x"""\nimport os\nos.abort()\n"""',
    '"""',
    'a"',
    "a\\",
    '\\"""; import os; """',
    "a\\N{BULLET}\\x",
    "{file}",
    "\x7f",
    "a\u2028b",
    "''' = 1",
    "é\U0001f600",
    "#",
    "a\rb",
    "a\0b",
]


def _starter(monkeypatch: pytest.MonkeyPatch, path: Path, **found: Any) -> Starter:
    empty = {"kind": "state dict", "tensors": [], "inputs": [], "call": None, "dynamic": {}}
    monkeypatch.setattr(files, "_read", lambda path: {**empty, **found})
    path.write_bytes(b"")
    return from_checkpoint(path)


def _docstring(starter: Starter) -> str:
    """Return the docstring of model.py, whose other statements must be its own."""
    tree = ast.parse(starter.files["model.py"].encode())
    assert [type(each) for each in tree.body] == [ast.Expr, ast.Import, ast.ImportFrom, ast.ClassDef]
    return ast.get_docstring(tree, clean=False) or ""


@pytest.mark.parametrize("name", [each for each in NAMES if each.isprintable() and "/" not in each])
def test_the_name_of_a_checkpoint_is_no_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.pt"
    starter = _starter(monkeypatch, path)
    assert f"The module of {path.name}:" in _docstring(starter)
    build = tomllib.loads(starter.files["BUILD.toml"])
    assert build.keys() == {"torch_model", "pte_program", "pte_test"}
    assert build["torch_model"][0]["weights"] == path.name
    exported = _starter(monkeypatch, path, kind="TorchScript")
    assert tomllib.loads(exported.files["BUILD.toml"])["torch_model"][0]["exported"] == path.name


@pytest.mark.parametrize("name", NAMES)
def test_names_in_a_checkpoint_are_no_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    text = _docstring(_starter(monkeypatch, tmp_path / "w.pt", tensors=[(name, "float32", [1])]))
    assert f"    {name if name.isprintable() else ascii(name)}: float32[1]\n" in text
    inputs = [{"name": name, "shape": [1, name], "dtype": "float32"}] * 2
    sizes = {name: {"min": 1, "max": 2}, "s0": name}
    starter = _starter(
        monkeypatch, tmp_path / "w.pt2", kind="exported program", inputs=inputs, call=name, dynamic=sizes
    )
    (model,) = tomllib.loads(starter.files["BUILD.toml"])["torch_model"]
    assert (model["inputs"], model["call"], model["dynamic"]) == (inputs, name, sizes)
