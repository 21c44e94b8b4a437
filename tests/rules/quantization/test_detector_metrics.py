"""Functions of the user's that import torchvision measure a quantized program with torchvision's operators."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.workspace_builder import Workspace

NET = """
import torch
import torchvision
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 5, 1))

    def forward(self, image):
        cells = self.body(image).flatten(2)[0].t()
        corner, size = cells[:, :2].sigmoid() * 8, cells[:, 2:4].sigmoid() * 8 + 1
        boxes = torch.cat([corner, corner + size], 1)
        return boxes[torchvision.ops.nms(boxes, cells[:, 4], 0.5)[:10]]


def samples(count):
    for _ in range(count):
        yield {"image": torch.rand(1, 3, 32, 32)}
"""
SCORES = """
import torch
import torchvision


def overlap(found, expected):
    return torchvision.ops.box_iou(*(torch.from_numpy(each["boxes"]) for each in (found, expected))).amax(1).mean()


def area(result, sample):
    return torchvision.ops.box_area(torch.from_numpy(result["boxes"])).mean()
"""
BUILD = """
[[torch_model]]
name = "net"
entry = "net.py:Net"
seed = 1
inputs = [{ name = "image", shape = [1, 3, 32, 32], dtype = "float32", range = [0, 1] }]
outputs = ["boxes"]

[[dataset]]
name = "data"
entry = "net.py:samples"
kwargs = { count = 2 }

[[quantized_model]]
name = "int8"
model = ":net"
recipe = { type = "xnnpack" }
calibration = ":data"
metrics = [{ entry = "scores.py:overlap" }]

[[backend_stack]]
name = "cpu"
backends = ["xnnpack", "portable"]

[[pte_program]]
name = "program"
model = ":int8"
stack = ":cpu"

[[pte_test]]
name = "test"
program = ":program"
model = ":int8"
cases = [{ name = "noise", generator = { seed = 1 } }]
metrics = [{ entry = "scores.py:overlap", min = 0.9 }]
accuracy = { dataset = ":data", metrics = [{ entry = "scores.py:area", min = 1.0 }] }
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path, {"MODELBUILD.toml": "", "BUILD.toml": BUILD, "net.py": NET, "scores.py": SCORES})


@pytest.mark.slow
def test_metrics_import_torchvision(workspace: Workspace) -> None:
    ended = workspace.run("test", "//:test", "--json")
    assert ended.code == 0, ended.err
    ended = workspace.run("quantize-report", "//:int8", "--json")
    assert ended.code == 0, ended.err
    assert 0.5 < json.loads(ended.out)["layers"][0]["metrics"]["metric overlap"] <= 1
