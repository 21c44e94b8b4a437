"""`modelbuild quantize-report`: the error of each layer, by actions that are cached one by one, and the advice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from modelbuild.errors import BuildError
from modelbuild_rules.quantization.report_command import quantize_report
from modelbuild_rules.quantization.steps.sensitivity import _ranked
from tests.format_shapes import check_format
from tests.workspace_builder import Workspace

if TYPE_CHECKING:
    from modelbuild_rules.quantization.documents import Layer, Measured, Sensitivity, Table

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(32, 32), nn.ReLU())
        self.wide = nn.Linear(32, 32)
        self.block = nn.ModuleDict({"one": nn.Linear(32, 32), "two": nn.Linear(32, 32)})
        self.head = nn.Linear(32, 4)
        with torch.no_grad():
            self.wide.weight[0, 0] = 300  # the only scale of all weights is for this one

    def forward(self, x):
        x = self.stem(x)
        x = torch.tanh(self.wide(x))
        return {"logits": self.head(x + self.block["two"](self.block["one"](x))), "largest": x.argmax(-1)}
"""
SAMPLES = """
import numpy as np


def samples(count):
    for number in range(count):
        yield {"x": np.random.uniform(-1, 1, (8, 32)).astype(np.float32)}


def rows():
    yield {"x": np.random.uniform(-1, 1, (64, 32)).astype(np.float32)}
"""
BUILD = """
[[torch_model]]
name = "net"
entry = "net.py:Net"
inputs = [{ name = "x", shape = [8, 32], dtype = "float32", range = [-1, 1] }]

[[dataset]]
name = "data"
entry = "samples.py:samples"
kwargs = { count = 3 }

[[quantization_recipe]]
name = "recipe"
quantizers = [{ type = "xnnpack", per_channel = false, operators = ["aten.linear.default"] }]

[[quantized_model]]
name = "int8"
model = ":net"
recipe = ":recipe"
calibration = ":data"

[[quantization_recipe]]
name = "recipe4"
quantizers = [{ type = "xnnpack", mode = "dynamic", weights = "int4", exclude = ["block"] }]

[[quantized_model]]
name = "int4"
model = ":net"
recipe = ":recipe4"
"""
DETECTOR = """
import torch
from torch import nn


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.backbone = nn.Linear(32, 64)
        self.scores = nn.Linear(64, 1)
        self.boxes = nn.Linear(64, 4)

    def forward(self, x):
        x = torch.relu(self.backbone(x))
        boxes, scores = self.boxes(x), self.scores(x)[:, 0]
        best, order = torch.topk(scores, 4)
        return {"found": boxes[order], "best": best, "sum": boxes.sum()}
"""
DETECTOR_BUILD = """
[[torch_model]]
name = "detector"
entry = "detector.py:Detector"
inputs = [{ name = "x", shape = [64, 32], dtype = "float32", range = [-1, 1] }]

[[quantized_model]]
name = "detector8"
model = ":detector"
recipe = ":both"
calibration = ":rows"

[[dataset]]
name = "rows"
entry = "samples.py:rows"

[[quantization_recipe]]
name = "both"
quantizers = [
    { type = "xnnpack", modules = ["backbone"] },
    { type = "xnnpack", modules = ["scores", "boxes"], operators = ["aten.linear.default"] },
]
"""
METRICS = """
import numpy as np


def change(found, expected):
    return abs(found["sum"] - expected["sum"]) / abs(expected["sum"])


def near(found, expected):
    gaps = np.linalg.norm(found["found"][:, None] - expected["found"][None], axis=-1).min(1)
    found["found"][:] = 0  # which no other metric sees
    return np.exp(-gaps.mean())
"""
METRIC_BUILD = """
[[quantized_model]]
name = "measured8"
model = ":detector"
recipe = ":both"
calibration = ":rows"
metrics = [{ entry = "metrics.py:near" }, { entry = "metrics.py:change" }, { output = "best", top = 1 }]
"""
LAYERS = {"stem.0", "wide", "block.one", "block.two", "head"}


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    build = BUILD + DETECTOR_BUILD + METRIC_BUILD
    code = {"net.py": NET, "samples.py": SAMPLES, "detector.py": DETECTOR, "metrics.py": METRICS}
    files = {"MODELBUILD.toml": "", "BUILD.toml": build, **code}
    workspace = Workspace(tmp_path_factory.mktemp("reported"), files)
    ended = workspace.run("quantize-report", "//:int8", "--json")
    assert ended.code == 0, ended.err
    (workspace.folder / "report.json").write_text(ended.out)
    return workspace


def test_the_layer_with_the_greatest_error_is_first_and_left_in_floating_point(reported: Workspace) -> None:
    report = json.loads((reported.folder / "report.json").read_text())
    check_format("quantize-report", report)
    assert report["method"] == "forward"
    layers = report["layers"]
    assert {layer["name"] for layer in layers} == LAYERS
    assert [layer["error"] for layer in layers] == sorted((layer["error"] for layer in layers), reverse=True)
    assert layers[0]["name"] == "wide"
    assert (layers[0]["parameters"], layers[0]["operators"]) == (32 * 33, ["aten.linear.default"])
    assert report["parameters"] == 4 * 32 * 33 + 33 * 4
    assert layers[0]["rest"] < layers[0]["error"] / 2
    assert layers[-1]["rest"] == 0
    assert (report["target"], report["samples"]) == ("//:int8", 3)
    assert report["leave"]["exclude"] == ["wide"]
    assert 0 < report["leave"]["error"] < report["error"] / 2


def test_text(reported: Workspace) -> None:
    ended = reported.run("quantize-report", ":int8", "--layers=2")
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0].startswith("//:int8: error ")
    assert lines[0].endswith(" over 3 samples")
    assert lines[1].startswith("  outputs: 'logits' ")
    assert lines[2].split() == ["layer", "operators", "parameters", "error", "rest"]
    assert lines[3].split()[:3] == ["wide", "linear", "1,056"]
    assert lines[5] == "  and 3 layers with less; --layers=5 lists all"
    assert lines[6] == 'leave in floating point: exclude = ["wide"]'
    assert " 0 ran, " in ended.err
    assert not (reported.root / "modelbuild-out/default/int8").exists()


def test_a_layer_that_is_excluded_measures_no_other_again(reported: Workspace, tmp_path: Path) -> None:
    workspace = reported.copy(tmp_path)
    workspace.edit("BUILD.toml", "per_channel = false,", 'per_channel = false, exclude = ["wide"],')
    ended = workspace.run("quantize-report", "//:int8")
    assert ended.code == 0
    ran = [line.partition("] ")[2].rpartition("  ")[0] for line in ended.err.splitlines() if line.startswith("[")]
    # The error without the layer was measured for the advice.
    assert [each for each in ran if not each.startswith(("layers ", "sensitivity "))] == []
    assert "wide" not in ended.out


def test_a_recipe_without_data_is_measured_on_the_example_inputs(reported: Workspace) -> None:
    report = reported.run("quantize-report", "//:int4", "--json").json
    assert {layer["name"] for layer in report["layers"]} == {"stem.0", "wide", "head"}
    assert report["samples"] == 1
    assert report["layers"][0]["error"] > 0


def test_a_target_without_a_report(reported: Workspace) -> None:
    ended = reported.run("quantize-report", "//:net")
    assert (ended.code, ended.err) == (
        2,
        "error: no output group 'sensitivity' in //:net; groups: default\n",
    )


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"version": 1}', b'{"version": 2, "layers": 1}'])
def test_a_malformed_report_is_one_line(content: bytes) -> None:
    assert quantize_report.show is not None
    with pytest.raises(BuildError, match=r"^//:a: the report about its layers is malformed: .*; expected version 2$"):
        list(
            quantize_report.show(
                "//:a", {"sensitivity.json": content}, {"layers": 20, "method": "", "output": "", "json": False}
            )
        )


def test_a_detector_is_measured_before_it_selects_rows(reported: Workspace) -> None:
    report = reported.run("quantize-report", "//:detector8", "--json").json
    outputs = report["outputs"]
    assert {name: each["after"] for name, each in outputs.items()} == {
        "found": "topk",
        "best": "topk",
        "sum": None,
        "before topk": None,
    }
    assert report["output"] in ("sum", "before topk")
    assert report["error"] == outputs[report["output"]]["error"] < 0.2
    shown = reported.run("quantize-report", "//:detector8").out
    assert "  warning: 'found', 'best' are after topk, which selects or orders rows by their values: " in shown


def test_a_metric_compares_whole_results(reported: Workspace) -> None:
    report = reported.run("quantize-report", "//:measured8", "--json").json
    near, change = (report["outputs"][f"metric {name}"] for name in ("near", "change"))
    assert (report["output"], report["error"]) == ("metric near", near["error"])
    assert near["metric"]["of_float"] == 1
    assert near["error"] == pytest.approx(1 - near["metric"]["value"], abs=1e-5)
    # The error of the output that this metric compares in the same way.
    assert change["metric"] == {"value": pytest.approx(report["outputs"]["sum"]["error"], rel=1e-4), "of_float": 0}
    assert report["outputs"]["metric top 1 of best"]["metric"]["of_float"] == 1
    assert report["outputs"]["sum"]["metric"] is None
    for layer in report["layers"]:
        assert layer["error"] == pytest.approx(1 - layer["metrics"]["metric near"], abs=1e-5)

    lines = reported.run("quantize-report", "//:measured8").out.splitlines()
    value = f"{near['metric']['value']:.4g}"
    assert lines[0] == f"//:measured8: metric near is {value} over 1 sample, in floating point 1"
    assert lines[2].split() == ["layer", "operators", "parameters", "metric", "rest"]
    assert f"{report['layers'][0]['metrics']['metric near']:.4g}" in lines[3].split()
    assert not any("warning" in line for line in lines)


def test_another_metric_repeats_only_measurements(reported: Workspace, tmp_path: Path) -> None:
    workspace = reported.copy(tmp_path)
    assert workspace.run("quantize-report", "//:measured8").code == 0
    workspace.edit("metrics.py", "np.exp(-gaps.mean())", "1")
    ended = workspace.run("quantize-report", "//:measured8")
    shown = ended.out.splitlines()
    assert shown[0] == "//:measured8: metric near is 1 over 1 sample, in floating point 1"
    assert shown[-1] == "no layers to leave: the error is 0"
    ran = [line.partition("] ")[2].split()[0] for line in ended.err.splitlines() if line.startswith("[")]
    assert set(ran) == {"measure", "sensitivity"}


def test_a_wrong_metric_is_one_line(reported: Workspace, tmp_path: Path) -> None:
    workspace = reported.copy(tmp_path)
    start = BUILD + DETECTOR_BUILD + METRIC_BUILD.partition("metrics = ")[0]
    line = start.count("\n") + 1
    for metrics, code, message in (
        ('[{ entry = "metrics.py:nears" }]', 1, "metrics.py has no 'nears'; did you mean 'near'?"),
        ('[{ output = "best_", top = 1 }]', 1, "a metric of 'best_', which is not an output; did you mean 'best'?"),
        ('[{ output = "best" }]', 3, f"BUILD.toml:{line}:12: attribute 'metrics[0]': expected 'entry' or 'top'"),
        ("[{ top = 1 }]", 3, f"BUILD.toml:{line}:12: attribute 'metrics[0]': expected 'top' and 'output' together"),
        ('[{ entri = "a.py:a" }]', 3, "unknown attribute 'entri' of 'metrics[0]'; did you mean 'entry'?"),
        (
            "{ forwards = [] }",
            3,
            f"BUILD.toml:{line}:13: ':detector' has no method 'forwards'; did you mean 'forward'?",
        ),
    ):
        workspace.write({"BUILD.toml": f"{start}metrics = {metrics}\n"})
        ended = workspace.run("quantize-report", "//:measured8")
        assert (ended.code, message in ended.err) == (code, True), ended.err


def test_advice_names_only_tables_that_have_the_attribute() -> None:
    tables: list[Table] = [{"kind": "own", "excludes": False}, {"kind": "xnnpack", "excludes": True}]
    layers = [_layer("a", 0), *(_layer(name, 1) for name in "bcdefgh")]
    alone = [_measured(error) for error in (0.9, 0.8, *(0.01,) * 6)]
    ranked = _ranked(layers, _measured(1.0), alone, tables)
    assert (ranked["leave"], ranked["fixed"]) == (None, ["a"])
    (advice,) = [line for line in _shown(ranked) if "no layers to leave" in line]
    assert advice == "no layers to leave: no table with 'exclude' quantizes 'a'"
    tables[0]["excludes"] = True
    ranked = _ranked(layers, _measured(1.0), alone, tables)
    assert ranked["leave"] is not None
    assert (ranked["leave"]["exclude"], ranked["leave"]["tables"]) == (["a", "b"], ["own", "xnnpack"])
    assert 'leave in floating point: exclude = ["a", "b"] in the table of own, xnnpack' in _shown(ranked)


def _layer(name: str, table: int) -> Layer:
    return {"name": name, "operators": ["aten.linear.default"], "tables": [table], "parameters": 1}


def _measured(error: float) -> Measured:
    outputs = {"y": error}
    return {
        "error": error,
        "output": "y",
        "outputs": outputs,
        "metrics": {},
        "after": {},
        "varies": ["y"],
        "samples": 1,
    }


def _shown(report: Sensitivity) -> list[str]:
    assert quantize_report.show is not None
    files = {"sensitivity.json": json.dumps(report).encode()}
    lines = list(quantize_report.show("//:a", files, {"layers": 20, "method": "", "output": "", "json": False}))
    assert "  warning: 'y' is of another length than in floating point: not comparable" in lines
    return lines
