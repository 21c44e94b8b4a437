"""The estimated time of a CUDA program, of which nothing runs: as printed, as a limit of a test, and by kernel."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.program_build import program_build
from tests.workspace_builder import Workspace

pytestmark = pytest.mark.xdist_group("cuda")

NET = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(64, 512), nn.Linear(512, 8)

    def forward(self, x):
        return self.second(torch.relu(self.first(x))).softmax(1)

"""
TEST = """
[[pte_test]]
name = "{0}"
program = ":program"
model = ":model"
device = ":device"
cases = [{{ name = "random", generator = {{ seed = 0, count = 2 }} }}]
latency = {{ max = {{ ":device" = "{1}" }}, estimated = true }}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, know_runtime: Any) -> Workspace:
    build = program_build('{ type = "cuda", min_block_size = 1 }, { type = "portable" }', shape="[32, 64]")
    build = build.replace('entry = "net.py:Model"', 'entry = "net.py:Model"\nkwargs = {}')
    tests = TEST.format("generous", "1 ms") + TEST.format("strict", "1 us")
    files = {"MODELBUILD.toml": "", "BUILD.toml": build + tests, "net.py": NET}
    workspace = Workspace(tmp_path_factory.mktemp("estimated"), files)
    know_runtime(workspace.root, workspace.cache, "//:program")
    workspace.build("//:program")
    return workspace


def test_the_cost_names_the_kernels_by_their_operators_and_modules(built: Workspace) -> None:
    path = built.root / "modelbuild-out/device/program"
    (method,) = built.run("inspect", "//:program", "--json").json["methods"]
    (cost,) = [each["cost"] for each in method["partitions"]]
    assert (cost["device"], cost["unknown"]) == ("NVIDIA GeForce RTX 3090", 0)
    first, second, *_ = sorted(cost["most_expensive"], key=lambda kernel: -kernel["bytes"])
    assert first["operators"][-2:] == ["aten.addmm.default", "aten.relu.default"]
    assert (first["modules"], second["modules"][:1]) == (["first"], ["second"])
    # The input, the weights, the bias and the result; Inductor counts what is read once.
    assert first["bytes"] == 4 * (32 * 64 + 64 * 512 + 512 + 32 * 512)
    assert method["estimate"]["moved"] == [4 * 32 * 64, 4 * 32 * 8]
    assert method["estimate"]["unknown"] == []
    assert 0 < cost["seconds"] <= method["estimate"]["seconds"] < 1e-3
    about = json.loads((path / "delegation.json").read_text())["partitions"][0]["about"]
    assert len(about["estimate"]["kernels"]) == cost["kernels"] <= len(about["kernels"])
    text = built.run("inspect", "--cost", str(path / "program.pte")).out.splitlines()
    assert text[0].startswith("cost on NVIDIA GeForce RTX 3090, estimated: fitted on NVIDIA H200s")
    assert text[1].startswith("method forward, called from host memory: ")
    assert "aten.addmm.default, aten.relu.default (first)" in "\n".join(text)
    assert "estimate " not in built.run("inspect", "//:program").out


def test_a_limit_is_compared_with_the_estimate_where_no_gpu_is(built: Workspace) -> None:
    ended = built.run("test", "//:generous", "//:strict")
    assert ended.code == 4
    reports = {
        name: json.loads((built.root / f"modelbuild-out/device/{name}/report.json").read_text())
        for name in ("generous", "strict")
    }
    status = {name: {case["name"]: case["status"] for case in report["cases"]} for name, report in reports.items()}
    assert status["generous"] == {"random": "not_run", "latency.max (estimated)": "passed"}
    assert status["strict"] == {"random": "not_run", "latency.max (estimated)": "failed"}
    (failed,) = [case for case in reports["strict"]["cases"] if case["status"] == "failed"]
    assert failed["message"].endswith(" ms, expected at most 0.001 ms")


def test_attributes_that_contradict(built: Workspace) -> None:
    build = (built.root / "BUILD.toml").read_text()
    limit = 'max = { ":device" = "1 us" }, estimated = true'
    for given, problem in (
        ("estimated = true", "there is no limit to compare an estimate with; expected latency.max"),
        (limit[:-18], "latency.max is measured on a device; expected 'on_device = true' or 'latency.estimated = true'"),
        (limit + " }\non_device = true\ntolerance = { abs = 1", "latency.estimated is for tests on this machine"),
    ):
        built.write({"BUILD.toml": build.replace(limit, given)})
        ended = built.run("test", "//:strict")
        assert (ended.code, ended.err.count("\n")) == (3, 1), ended.err
        assert problem in ended.err
