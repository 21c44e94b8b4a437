"""`modelbuild test --bisect` finds faults planted in a constant of a partition, in a node outside partitions, and in
the bytes of a built program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from modelbuild_rules.testing.steps.parity.compare import node_difference
from tests.workspace_builder import Workspace

NET = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        y = torch.relu(self.first(x))
        y = self.second(y) + y
        y = torch.sigmoid(y)
        y = torch.cumsum(y.mean(dim=(2, 3)), 1)
        z = torch.tanh(self.head(y))
        return z, torch.topk(z, 2).values


class Two(nn.Module):  # the first output does not depend on the values of the convolution
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, x):
        return torch.sign(torch.exp(self.first(x))), x.mean(dim=(2, 3))
"""
FILES = {
    "MODELBUILD.toml": 'rules = ["//tools/rules"]\n',
    "m/net.py": NET,
    "tools/rules/__init__.py": "",
    "tools/rules/steps/__init__.py": "",
    # A model with one value of a tensor, or one operator, changed; and a program with a value changed in its file.
    "tools/rules/sick.py": """
from dataclasses import replace
from modelbuild.api import Attrs, Dep, Files, Output, rule
from modelbuild_rules.providers import Model, ModelMethod, Program

class SickModelAttrs(Attrs):
    model: Dep
    weight: str = ""
    operator: tuple[str, str] = ("", "")

@rule(attrs=SickModelAttrs)
def sick_model(ctx):
    model = ctx.provider(ctx.attrs.model, Model).methods["forward"].exported
    inputs = {"program": model.program, "weights": model.weights}
    outputs = [Output("program", "program", "tree"), Output("weights", "weights", "tree")]
    params = {"weight": ctx.attrs.weight, "operator": ctx.attrs.operator}
    made = ctx.action("alter", step="alter", inputs=inputs, outputs=outputs, params=params)
    sick = replace(model, program=made["program"], weights=made["weights"])
    return (Model({"forward": ModelMethod(sick)}), Files((model.signature,)))

class SickProgramAttrs(Attrs):
    program: Dep
    model: Dep
    weight: str

@rule(attrs=SickProgramAttrs)
def sick_program(ctx):
    program = ctx.provider(ctx.attrs.program, Program)
    model = ctx.provider(ctx.attrs.model, Model).methods["forward"].exported
    inputs = {"pte": program.pte, "program": model.program, "weights": model.weights}
    params = {"weight": ctx.attrs.weight}
    made = ctx.action("tamper", step="tamper", inputs=inputs, outputs=[Output("pte", "sick.pte")], params=params)
    return (replace(program, pte=made["pte"]), Files((made["pte"],)))
""",
    "tools/rules/steps/_value.py": """
import json
import struct

def changed(program, weights, name):
    tensors = json.loads((program / "program.json").read_text())["tensors"]
    (file,) = [tensor["file"] for tensor in tensors if tensor["name"] == name]
    data = (weights / file).read_bytes()
    return file, data, struct.pack("<f", struct.unpack("<f", data[:4])[0] + 1) + data[4:]
""",
    "tools/rules/steps/alter.py": """
import shutil
from tools_rules.steps._value import changed

def run(step):
    program, weights = step.input("program"), step.input("weights")
    shutil.copytree(weights, step.outputs["weights"], dirs_exist_ok=True, copy_function=shutil.copyfile)
    text = (program / "program.json").read_text()
    old, new = step.params["operator"]
    if old:
        assert text.count(old) == 1
        text = text.replace(old, new)
    (step.outputs["program"] / "program.json").write_text(text)
    if step.params["weight"]:
        file, _, data = changed(program, weights, step.params["weight"])
        (step.outputs["weights"] / file).write_bytes(data)
""",
    "tools/rules/steps/tamper.py": """
from modelbuild_rules.program.steps.linking.manifest import seal
from tools_rules.steps._value import changed

def run(step):
    _, old, new = changed(step.input("program"), step.input("weights"), step.params["weight"])
    data = step.input("pte").read_bytes()
    assert data.count(old) == 1
    step.outputs["pte"].write_bytes(data.replace(old, new))
    seal(step.outputs["pte"])
""",
    "m/BUILD.toml": """
[[backend_stack]]
name = "stack"
backends = ["xnnpack", "portable"]
[[torch_model]]
name = "model"
entry = "net.py:Net"
inputs = [{ name = "x", shape = ["n", 3, 8, 8], dtype = "float32", range = [-1, 1] }]
dynamic = { n = { min = 1, max = 4 } }
outputs = ["z", "best"]
[[pte_program]]
name = "good"
model = ":model"
stack = ":stack"
[[sick_model]]
name = "constant_model"
model = ":model"
weight = "second.weight"
[[sick_model]]
name = "operator_model"
model = ":model"
operator = ["aten.mean.dim", "aten.sum.dim_IntList"]
[[pte_program]]
name = "{fault}"
matrix = { fault = ["constant", "operator"] }
model = ":{fault}_model"
stack = ":stack"
verify = false
[[torch_model]]
name = "two_model"
entry = "net.py:Two"
inputs = [{ name = "x", shape = [1, 3, 8, 8], dtype = "float32", range = [-1, 1] }]
outputs = ["ones", "mean"]
[[sick_model]]
name = "both_model"
model = ":two_model"
weight = "first.weight"
operator = ["aten.mean.dim", "aten.sum.dim_IntList"]
[[pte_program]]
name = "both"
model = ":both_model"
stack = ":stack"
verify = false
[[pte_test]]
name = "both_test"
program = ":both"
model = ":two_model"
cases = [{ name = "drawn", generator = { seed = 3 } }]
[[sick_program]]
name = "bytes"
program = ":good"
model = ":model"
weight = "head.weight"
[[pte_test]]
name = "{fault}_test"
matrix = { fault = ["constant", "operator", "bytes"] }
program = ":{fault}"
model = ":model"
cases = [{ name = "drawn", generator = { seed = 3 } }]
[[pte_test]]
name = "large_test"
program = ":good"
model = ":model"
cases = [{ name = "drawn", generator = { seed = 3 } }]
limits = { bytes = 10 }
""",
}


def line(text: str) -> str:
    """Return the place of a line in the model's source."""
    return f"m/net.py:{NET.splitlines().index(f'        {text}') + 1}"


@pytest.mark.slow
def test_planted_faults_are_found(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, FILES)
    command = "test //... --bisect --json --keep-going --junit junit.xml --github-annotations"
    ended = workspace.run(*command.split())
    assert ended.code == 4, ended.out + ended.err
    told = ended.json
    found = {test["label"]: test["cases"][-1] for test in told["tests"]}
    assert {(case["name"], case["status"]) for case in found.values()} == {("bisect", "failed")}

    # In a partition, the node with the constant; two nodes follow it before the partition's first output.
    constant = found["//m:constant_test"]
    assert constant["message"].startswith(
        "case drawn: first wrong node: conv2d_1 (aten.convolution.default) of second, in partition p0 (xnnpack): it"
        " differs by up to "
    )
    assert "(abs 0.0001, rel 0.0001 of " in constant["message"]
    assert constant["place"] == line("y = self.second(y) + y")
    # Outside of partitions, by the operator that the program has.
    operator = found["//m:operator_test"]
    assert operator["message"].startswith(
        "case drawn: first wrong node: mean (aten.sum.dim_IntList), outside partitions (portable): it differs by up to "
    )
    assert operator["place"] == line("y = torch.cumsum(y.mean(dim=(2, 3)), 1)")
    # Not the convolution of the other output, which differs and is before it.
    both = found["//m:both_test"]
    assert both["message"].startswith("case drawn: first wrong node: mean (aten.sum.dim_IntList), ")
    assert both["place"] == line("return torch.sign(torch.exp(self.first(x))), x.mean(dim=(2, 3))")
    # The file's partition is wrong, but none of its nodes when compiled again.
    changed = found["//m:bytes_test"]
    assert changed["message"].startswith(
        "case drawn: first wrong node: tanh (aten.tanh.default), in partition p1 (xnnp"
    )
    assert changed["message"].endswith("; compiled again with their results as outputs, all its nodes are right")
    assert changed["place"] == line("z = torch.tanh(self.head(y))")
    assert found["//m:large_test"]["message"] == "parity holds in every case"

    assert f"::error file=m/net.py,line={constant['place'].partition(':')[2]},title=//m%3Aconstant_test" in ended.err
    assert 'name="bisect"' in (workspace.root / "junit.xml").read_text()


def test_between_nodes_small_values_may_differ_as_great_ones_do() -> None:
    tolerance = {"abs": 0.0, "rel": 1e-3, "cosine": None, "ignore": False}
    wanted = np.array([1000.0, 0.0])
    assert node_difference(np.array([1000.0, 0.9]), wanted, tolerance) == ""
    assert node_difference(np.array([1000.0, 1.1]), wanted, tolerance) == (
        "differs by up to 1.1 at [1] (1.1, expected 0); allowed: 1 (abs 0, rel 0.001 of 1e+03)"
    )
    assert node_difference(np.array([1000.0]), wanted, tolerance) == "has the shape [1], expected [2]"
    assert (
        node_difference(np.array([1000.0, np.nan]), wanted, tolerance)
        == "has infinities or NaNs at different positions"
    )
    cosine = {"abs": None, "rel": None, "cosine": 0.99, "ignore": False}
    assert node_difference(2 * wanted, wanted, cosine) == ""
    assert node_difference(np.array([0.0, 1.0]), wanted, cosine) == "has cosine 0.000000, expected at least 0.99"
