"""Shared by tests of declarations: a program and its actions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from modelbuild.rule_runner import AnalysedTarget, RuleRunner
from tests.program_build import program_build


@pytest.fixture
def analysed(tmp_path: Path) -> Callable[..., AnalysedTarget]:
    """Return //:program, whose stack has these backends (tables of TOML); its model is never
    read. With `method`, it is the only one of the program's methods."""

    def analyse(*backends: str, capability: str = "8.6", method: str = "") -> AnalysedTarget:
        device = f'compute_capabilities = ["{capability}"]'
        text = program_build(", ".join(backends), "net.py:Net", device=device)
        if method:
            text = text.replace('model = ":model"', f'model = {{ {method} = ":model" }}')
        return RuleRunner(tmp_path, {"BUILD.toml": text, "net.py": ""}).target("//:program")

    return analyse
