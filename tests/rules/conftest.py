"""What tests of declarations share: a workspace with one program, analysed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from modelbuild.analysis.analyze import Analyzer
from modelbuild.analysis.rules import load_rules
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.workspace import load_workspace

BUILD = """
[[torch_model]]
name = "model"
entry = "net.py:Net"
srcs = ["net.py"]
inputs = [{{ name = "x", shape = [2], dtype = "float32" }}]

[[pte_program]]
name = "program"
model = ":model"
stack = ":stack"
device = ":device"

[[device_target]]
name = "device"
arch = "x86_64"
compute_capability = ["{capability}"]

[[backend_stack]]
name = "stack"
backends = [{backends}]
"""


@pytest.fixture
def analysed(tmp_path: Path) -> Callable[..., Analyzer]:
    """What analysing //:program gives, whose stack has these backends (tables of TOML); its model is never read."""

    def analyse(*backends: str, capability: str = "8.6") -> Analyzer:
        (tmp_path / "MODELBUILD.toml").write_text("")
        (tmp_path / "net.py").touch()
        (tmp_path / "BUILD.toml").write_text(BUILD.format(backends=", ".join(backends), capability=capability))
        rules = load_rules(tmp_path, ())
        analyzer = Analyzer(Loader(load_workspace(tmp_path), rules.by_name), rules)
        analyzer.analyze(Label("", "program"))
        return analyzer

    return analyse
