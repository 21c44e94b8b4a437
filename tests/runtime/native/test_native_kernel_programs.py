"""A model with torchvision's operators through the command line: built, inspected, tested, bundled and run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from modelbuild_rules.operators.steps import torchvision_eager
from tests.workspace_builder import Workspace

# The same registrations as torchvision's, with its operators in Python.
OPERATORS = """
import torch

library = torch.library.Library("torchvision", "DEF")
library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
library.define("roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height,"
               " SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor")


def nms(dets, scores, iou_threshold):
    return torch.ops.torchvision.nms(dets, scores, iou_threshold)


@torch.library.register_fake("torchvision::nms")
def _(dets, scores, iou_threshold):
    return dets.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)


@torch.library.register_fake("torchvision::roi_align")
def _(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    return input.new_empty(rois.shape[0], input.shape[1], pooled_height, pooled_width)
"""
NET = """
import torch
from operators import library, nms
from eager import nms as eager_nms, roi_align as eager_roi_align

library.impl("nms", eager_nms, "CPU")
library.impl("roi_align", eager_roi_align, "CPU")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.features = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.scores = torch.nn.Conv2d(8, 1, 1)
        self.sizes = torch.nn.Conv2d(8, 2, 1)
        self.head = torch.nn.Linear(8 * 9, 4)

    def forward(self, image):
        features = torch.relu(self.features(image))
        scores = torch.sigmoid(self.scores(features)).flatten()
        sizes = 4 + 8 * torch.sigmoid(self.sizes(features)).flatten(2)[0].t()
        rows, columns = features.shape[2:]
        y, x = torch.meshgrid(torch.arange(rows) * 2.0, torch.arange(columns) * 2.0, indexing="ij")
        centres = torch.stack([x.flatten(), y.flatten()], 1)
        boxes = torch.cat([centres - sizes / 2, centres + sizes / 2], 1)
        kept = nms(boxes, scores, 0.3)[:10]
        boxes = boxes[kept]
        regions = torch.cat([torch.zeros(kept.shape[0], 1), boxes], 1)
        pooled = torch.ops.torchvision.roi_align(features, regions, 0.5, 3, 3, 2, True)
        return boxes, scores[kept], self.head(pooled.flatten(1))
"""
BUILD = """
[[torch_model]]
name = "model"
entry = "net.py:Net"
inputs = [{ name = "image", shape = [1, 3, 32, 40], dtype = "float32" }]
outputs = ["boxes", "scores", "classes"]

[[backend_stack]]
name = "stack"
backends = ["xnnpack", "portable"]

[[pte_program]]
name = "program"
model = ":model"
stack = ":stack"

[[pte_test]]
name = "test"
program = ":program"
model = ":model"
runtime = { archive = "runtime.tar" }
cases = [{ name = "drawn", generator = { seed = 3, count = 2 } }]

[[pte_test]]
name = "installed_test"
program = ":program"
model = ":model"
cases = [{ name = "drawn", generator = { seed = 3 } }]

[[runtime_bundle]]
name = "bundle"
program = ":program"
runtime = { archive = "runtime.tar" }
"""

pytestmark = pytest.mark.xdist_group("bundles")


@pytest.fixture(scope="module")
def made(repository: Path, native: Path, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Return a workspace with the built program and bundle."""
    eager = Path(torchvision_eager.__file__).read_text()
    files = {"MODELBUILD.toml": "", "BUILD.toml": BUILD, "net.py": NET, "operators.py": OPERATORS, "eager.py": eager}
    workspace = Workspace(tmp_path_factory.mktemp("kernels"), files)
    pack = [sys.executable, repository / "runtime/archive.py", "--build", native, "--out"]
    subprocess.run([*pack, workspace.root / "runtime.tar"], check=True, stdout=subprocess.DEVNULL)
    workspace.build("//:program", "//:bundle")
    return workspace


def test_inspect_prints_the_kernel_library(made: Workspace) -> None:
    line = "needs the kernel library modelbuild_kernels for torchvision::nms.out, torchvision::roi_align.out"
    assert line in made.run("inspect", "//:program").out.splitlines()


def test_the_program_finds_the_same_boxes_as_eager_mode(made: Workspace) -> None:
    tests = made.test("//:test", "//:installed_test", code=0)
    assert [tests[name]["status"] for name in ("//:test", "//:installed_test")] == ["passed", "passed"], tests


def test_run_finds_the_kernel_library(made: Workspace) -> None:
    np.save(made.root / "image.npy", np.random.default_rng(0).random((1, 3, 32, 40), np.float32))
    command = ("run", "//:program", "--input", "image=image.npy", "--repeat", "1", "--warmup", "0")
    done = made.run(*command)
    assert done.code == 0, done.err


def test_a_bundle_contains_the_library(made: Workspace, tmp_path: Path) -> None:
    (bundle,) = made.root.glob("modelbuild-out/*/bundle/bundle")
    assert {"libmodelbuild_kernels.so", "modelbuild_kernels.kernels.json"} <= {
        p.name for p in (bundle / "lib").iterdir()
    }
    image = torch.rand(1, 3, 32, 40, generator=torch.Generator().manual_seed(1))
    np.save(tmp_path / "image.npy", image.numpy())
    command = [bundle / "run.sh", f"--input=image={tmp_path}/image.npy", f"--output-dir={tmp_path}", "--json"]
    done = subprocess.run(command, env={}, cwd="/", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert np.load(tmp_path / "boxes.npy").shape == (10, 4)
