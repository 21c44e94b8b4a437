"""Workspaces made of a few texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import pytest

from modelbuild.loading.loader import Loader
from modelbuild.workspace.workspace import load_workspace

RULES = ("filegroup", "torch_model", "pte_program")

MakeLoader: TypeAlias = Callable[[Mapping[str, str]], Loader]


@pytest.fixture
def make_loader(tmp_path: Path) -> MakeLoader:
    """Return a function that writes files below a new root (by default with an empty MODELBUILD.toml) and opens the
    workspace."""

    def make(files: Mapping[str, str]) -> Loader:
        for path, text in {"MODELBUILD.toml": "", **files}.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        return Loader(load_workspace(tmp_path, {}), RULES)

    return make
