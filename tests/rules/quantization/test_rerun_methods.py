"""After one change, exactly the actions of a program with quantized methods that it can affect run again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.rules.quantization.changes import SAMPLES, Row, edited
from tests.workspace_builder import Workspace

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = nn.Linear(8, 8), nn.Linear(8, 4)

    def embed(self, x):
        return torch.tanh(self.backbone(x))

    def classify(self, x):
        return self.head(torch.tanh(self.backbone(x)))
"""
BUILD = """
[[torch_model]]
name = "net"
entry = "net.py:Net"
seed = 1

[torch_model.methods.embed]
inputs = [{ name = "x", shape = [2, 8], dtype = "float32", range = [-1, 1] }]

[torch_model.methods.classify]
inputs = [{ name = "x", shape = [2, 8], dtype = "float32", range = [-1, 1] }]

[[dataset]]
name = "data_{count}"
matrix = { count = [4, 9] }
entry = "samples.py:samples"
kwargs = { count = "{count}" }

[[quantization_recipe]]
name = "recipe"
quantizers = [{ type = "xnnpack" }]

[[quantized_model]]
name = "int8"
model = ":net"
recipe = ":recipe"
calibration = { embed = ":data_4", classify = ":data_4" }

[[backend_stack]]
name = "stack"
backends = ["xnnpack", "portable"]

[[pte_program]]
name = "program"
model = ":int8"
stack = ":stack"
"""
METHODS = ("embed", "classify")


def of(target: str, steps: str, methods: Iterable[str] = METHODS) -> set[str]:
    """Return the ids of actions of methods."""
    return {f"//:{target}#{step}:{method}" for step in steps.split() for method in methods}


def program(methods: Iterable[str] = METHODS) -> set[str]:
    """Return the ids of the actions that make a program from methods that changed."""
    compiled = {f"//:program#{step}:{method}.p0" for step in ("compile", "store") for method in methods}
    linked = ("emit", "verify")
    return {*of("program", "partition weights", methods), *compiled, *(f"//:program#{step}" for step in linked)}


TABLE = {
    "head of one method": Row(
        edited("net.py", "self.head(torch.tanh(self.backbone(x)))", "self.head(torch.sigmoid(self.backbone(x)))"),
        {*of("net", "export"), *of("int8", "modules calibrate convert expected", ["classify"]), *program(["classify"])},
    ),
    "recipe": Row(
        edited("BUILD.toml", '[{ type = "xnnpack" }]', '[{ type = "xnnpack", observer = "min_max" }]'),
        {*of("int8", "calibrate convert expected"), *program()},
    ),
    "scales of weights": Row(
        edited("BUILD.toml", '[{ type = "xnnpack" }]', '[{ type = "xnnpack", per_channel = false }]'),
        {*of("int8", "convert expected"), *program()},
    ),
    "calibration data of one method": Row(
        edited("BUILD.toml", 'classify = ":data_4"', 'classify = ":data_9"'),
        {"//:data_9#generate", *of("int8", "calibrate convert expected", ["classify"]), *program(["classify"])},
    ),
    "comment in the source": Row(
        edited("net.py", "    def embed", "    # Two methods.\n    def embed"),
        {*of("net", "export"), *of("int8", "modules")},
    ),
    "method of the program": Row(
        edited("BUILD.toml", 'model = ":int8"\n', 'model = { embed = ":int8" }\n'),
        # It shares no state any more.
        {"//:program#partition:embed", "//:program#weights:embed", "//:program#emit", "//:program#verify"},
    ),
}
QUICK = "calibration data of one method"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    files = {"MODELBUILD.toml": "", "BUILD.toml": BUILD, "net.py": NET, "samples.py": SAMPLES}
    workspace = Workspace(tmp_path_factory.mktemp("methods"), files)
    workspace.build("//:program")
    return workspace


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.exhaustive if c != QUICK else ()) for c in TABLE])
def test_reruns_after_a_change(built: Workspace, tmp_path: Path, case: str) -> None:
    workspace = built.copy(tmp_path)
    TABLE[case].change(workspace)
    assert workspace.ran("//:program") == TABLE[case].ran
