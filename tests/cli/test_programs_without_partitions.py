"""Programs of which no backend takes a node: their folders of partitions are empty, and trees have no empty folders."""

from __future__ import annotations

import json

import pytest

from tests.workspace_builder import Workspace

NET = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(5, 3))

    def forward(self, x):
        return x % 3, self.table[x % 5]
"""
BUILD = """
[[device_target]]
name = "gpu"
arch = "x86_64"
compute_capabilities = ["8.9"]

[[torch_model]]
name = "model"
entry = "net.py:Net"
inputs = [{ name = "x", shape = [8], dtype = "int64" }]

[[pte_program]]
name = "cpu"
model = ":model"
stack = ["xnnpack", "portable"]

[[pte_test]]
name = "cpu_test"
program = ":cpu"
model = ":model"
cases = [{ name = "drawn", generator = { seed = 0, count = 2 } }]

[[pte_program]]
name = "cuda"
model = ":model"
stack = [{ type = "cuda", min_block_size = 50 }, "portable"]
device = ":gpu"

[[pte_program]]
name = "tensorrt"
model = ":model"
stack = [{ type = "tensorrt", min_block_size = 50 }, "portable"]
device = ":gpu"
"""


@pytest.mark.parametrize("name", ["cpu", pytest.param("cuda", marks=pytest.mark.exhaustive), "tensorrt"])
def test_a_program_builds(name: str, workspace: Workspace) -> None:
    workspace.write({"MODELBUILD.toml": "", "net.py": NET, "BUILD.toml": BUILD})
    workspace.build(f"//:{name}")
    made = workspace.root / "modelbuild-out" / ("default" if name == "cpu" else "gpu") / name / "delegation.json"
    assert list(json.loads(made.read_text())["totals"]) == ["portable"]
    if name == "cpu":
        workspace.test("//:cpu_test")
