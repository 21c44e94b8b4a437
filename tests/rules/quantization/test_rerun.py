"""After one change, exactly the actions of a quantized program that it can affect run again."""

from __future__ import annotations

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
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.two(self.one(x).relu()).softmax(-1)
"""
BUILD = """
[[torch_model]]
name = "net"
entry = "net.py:Net"
inputs = [{ name = "x", shape = [2, 8], dtype = "float32", range = [-1, 1] }]

[[dataset]]
name = "data"
entry = "samples.py:samples"
kwargs = { count = 4 }

[[quantization_recipe]]
name = "recipe"
quantizers = [{ type = "xnnpack" }]

[[quantized_model]]
name = "int8"
model = ":net"
recipe = ":recipe"
calibration = ":data"

[[backend_stack]]
name = "stack"
backends = ["xnnpack", "portable"]

[[pte_program]]
name = "program"
model = ":int8"
stack = ":stack"

[[pte_test]]
name = "test"
program = ":program"
model = ":net"
cases = [{ name = "drawn", generator = { seed = 1, count = 2 } }]
tolerance = { abs = 0.05 }
accuracy = { dataset = ":data", metrics = [
    { output = "output", top = 1, min = 0.5 },
    { output = "output", measure = "cosine", min = 0.99 },
    { output = "output", measure = "max_error", max = 0.05 },
] }
"""
EXPORT, GENERATE, TEST = "//:net#export", "//:data#generate", "//:test#test"
MODULES, CALIBRATE, CONVERT = (f"//:int8#{step}" for step in ("modules", "calibrate", "convert"))
PARTITION, WEIGHTS = (f"//:program#{step}" for step in ("partition", "weights"))
PROGRAM = {PARTITION, WEIGHTS, *(f"//:program#{step}" for step in ("compile:p0", "store:p0", "emit")), TEST}


TABLE = {
    # The test's step gets the model's source.
    "comment in the model's source": Row(
        edited("net.py", "    def forward", "    # Two layers.\n    def forward"), {EXPORT, MODULES, TEST}
    ),
    "stack": Row(
        edited("BUILD.toml", '["xnnpack", ', '[{ type = "xnnpack", precisions = ["fp32", "static_quant"] }, '),
        {PARTITION, WEIGHTS},
    ),
    "scales of weights": Row(
        edited("BUILD.toml", '[{ type = "xnnpack" }]', '[{ type = "xnnpack", per_channel = false }]'),
        {CONVERT, *PROGRAM},
    ),
    "observer": Row(
        edited("BUILD.toml", '[{ type = "xnnpack" }]', '[{ type = "xnnpack", observer = "min_max" }]'),
        {CALIBRATE, CONVERT, *PROGRAM},
    ),
    "comment in the generator": Row(edited("samples.py", "def samples", "# Noise.\ndef samples"), {GENERATE}),
    "calibration data": Row(
        edited("BUILD.toml", "count = 4 }", "count = 9 }"), {GENERATE, CALIBRATE, CONVERT, *PROGRAM}
    ),
    "head of the model": Row(
        edited("net.py", "nn.Linear(8, 4)", "nn.Linear(8, 4, bias=False)"),
        {EXPORT, CALIBRATE, CONVERT, *PROGRAM},
    ),
    "submodule left in floating point": Row(
        edited("BUILD.toml", '[{ type = "xnnpack" }]', '[{ type = "xnnpack", exclude = ["two"] }]'),
        {CALIBRATE, CONVERT, *PROGRAM},
    ),
    "test": Row(edited("BUILD.toml", "abs = 0.05", "abs = 0.06"), {TEST}),
}
REST = {
    "head of the model",
    "submodule left in floating point",
    "observer",
    "comment in the generator",
    "calibration data",
    "test",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    files = {"MODELBUILD.toml": "", "BUILD.toml": BUILD, "net.py": NET, "samples.py": SAMPLES}
    workspace = Workspace(tmp_path_factory.mktemp("quantized"), files)
    test = workspace.test("//:test")["//:test"]
    assert test["status"] == "passed"
    assert [each["name"] for each in test["cases"]][2:] == [
        "accuracy_top1_output",
        "accuracy_cosine_output",
        "max_error_output",
    ]
    assert 0.99 < test["measures"]["accuracy_cosine_output"] < 1
    assert 0 < test["measures"]["max_error_output"] < 0.05
    return workspace


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.exhaustive if c in REST else ()) for c in TABLE])
def test_reruns_after_a_change(built: Workspace, tmp_path: Path, case: str) -> None:
    workspace = built.copy(tmp_path)
    TABLE[case].change(workspace)
    ended = workspace.run("test", "//:test", "--json")
    assert ended.code == 0, ended.err
    assert {id for id, status in ended.statuses.items() if status == "ran"} == TABLE[case].ran
