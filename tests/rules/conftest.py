"""Shared by tests of declarations: an analysed workspace with one program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from modelbuild.analysis.analyze import Analyzer
from modelbuild.analysis.rules import load_rules
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.workspace.workspace import load_workspace
from tests.program_build import program_build


@pytest.fixture
def analysed(tmp_path: Path) -> Callable[..., Analyzer]:
    """Return the result of analysing //:program, whose stack has these backends (tables of TOML); its model is never
    read. With `method`, it is the only one of the program's methods."""

    def analyse(*backends: str, capability: str = "8.6", method: str = "") -> Analyzer:
        (tmp_path / "MODELBUILD.toml").write_text("")
        (tmp_path / "net.py").touch()
        device = f'compute_capabilities = ["{capability}"]'
        text = program_build(", ".join(backends), "net.py:Net", device=device)
        if method:
            text = text.replace('model = ":model"', f'model = {{ {method} = ":model" }}')
        (tmp_path / "BUILD.toml").write_text(text)
        rules = load_rules(tmp_path, ())
        analyzer = Analyzer(Loader(load_workspace(tmp_path), rules.by_name), rules)
        analyzer.analyze(Label("", "program"))
        return analyzer

    return analyse
