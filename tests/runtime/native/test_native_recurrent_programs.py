"""Recurrent nets through the command line: number of partitions, dynamic lengths, parity, notes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workspace_builder import Workspace

NET = """
import torch


class Tagger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = torch.nn.GRU(16, 24, num_layers=2, bidirectional=True, batch_first=True)
        self.lstm = torch.nn.LSTM(48, 32, batch_first=True)
        self.head = torch.nn.Linear(32, 5)

    def forward(self, x):
        return self.head(self.lstm(self.gru(x)[0])[0])


class Cells(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = torch.nn.GRUCell(4, 4)

    def forward(self, x):
        state = torch.zeros(1, 4)
        for step in range(12):
            state = self.cell(x[:, step], state)
        return state
"""
BUILD = """
[[torch_model]]
name = "tagger"
entry = "net.py:Tagger"
inputs = [{ name = "x", shape = [1, "steps", 16], dtype = "float32" }]
dynamic = { steps = { min = 1, max = 100 } }

[[torch_model]]
name = "cells"
entry = "net.py:Cells"
inputs = [{ name = "x", shape = [1, 12, 4], dtype = "float32" }]

[[backend_stack]]
name = "stack"
backends = ["xnnpack", "portable"]

[[pte_program]]
name = "{model}_program"
matrix = { model = ["tagger", "cells"] }
model = ":{model}"
stack = ":stack"

[[pte_test]]
name = "test"
program = ":tagger_program"
model = ":tagger"
runtime = { archive = "runtime.tar" }
tolerance = { abs = 1e-5, rel = 1e-5 }
cases = [
    { name = "longest", generator = { seed = 1, sizes = { steps = 100 } } },
    { name = "shortest", generator = { seed = 2, sizes = { steps = 1 } } },
]
"""

pytestmark = [pytest.mark.xdist_group("bundles"), pytest.mark.exhaustive]


@pytest.fixture(scope="module")
def workspace(repository: Path, native: Path, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    made = Workspace(tmp_path_factory.mktemp("recurrent"), {"MODELBUILD.toml": "", "BUILD.toml": BUILD, "net.py": NET})
    pack = [sys.executable, repository / "runtime/archive.py", "--build", native, "--out"]
    subprocess.run([*pack, made.root / "runtime.tar"], check=True, stdout=subprocess.DEVNULL)
    return made


def test_a_recurrent_net_of_dynamic_length_keeps_its_loop(workspace: Workspace) -> None:
    assert workspace.run("check", "//:tagger_program").code == 0
    assert workspace.test("//:test", code=0)["//:test"]["status"] == "passed"
    workspace.build("//:tagger_program")
    (path,) = workspace.root.glob("modelbuild-out/**/tagger_program/delegation.json")
    delegation = json.loads(path.read_text())
    loops = [node["op"] for node in delegation["nodes"] if node["op"].startswith("modelbuild.")]
    assert loops == ["modelbuild.gru.default"] * 4 + ["modelbuild.lstm.default"]
    assert len(delegation["partitions"]) <= 4
    assert len(delegation["nodes"]) < 60


def test_a_loop_of_cells_is_noted_with_its_place(workspace: Workspace) -> None:
    line = "note: //:cells_program: 12 calls of aten.gru_cell.default are unrolled to "
    (note,) = [each for each in workspace.run("build", "//:cells_program").err.splitlines() if each.startswith(line)]
    assert "at net.py:24); nn.GRU keeps the loop, if no input depends on a result" in note
