"""`modelbuild test --bisect` finds a fault of a method in a sequence of methods: in its outputs, or in the state that
it leaves, which only a later call of another method shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.testing.test_bisect import FILES as BISECTED
from tests.workspace_builder import Workspace

NET = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(4, 8), persistent=False)
        self.key = nn.Linear(8, 8)
        self.value = nn.Linear(8, 8)

    def write(self, x, row):
        self.cache.index_copy_(0, row, self.key(x))
        return self.value(x)

    def read(self, y):
        self.cache.mul_(0.5)
        return torch.tanh(self.cache) + self.value(y)
"""
FILES = {
    **{name: text for name, text in BISECTED.items() if name.startswith(("MODELBUILD", "tools"))},
    "m/net.py": NET,
    "m/rows.json": "[3, 1, 0, 2]",
    # A module one of whose methods has a changed value in a weight.
    "tools/rules/sick.py": """
from dataclasses import replace
from modelbuild.api import Attrs, Dep, Files, Output, rule
from modelbuild_rules.providers import Model

class SickModuleAttrs(Attrs):
    model: Dep
    method: str
    weight: str

@rule(attrs=SickModuleAttrs)
def sick_module(ctx):
    methods = dict(ctx.provider(ctx.attrs.model, Model).methods)
    one = methods[ctx.attrs.method]
    inputs = {"program": one.exported.program, "weights": one.exported.weights}
    outputs = [Output("program", "program", "tree"), Output("weights", "weights", "tree")]
    params = {"weight": ctx.attrs.weight, "operator": ["", ""]}
    made = ctx.action("alter", step="alter", inputs=inputs, outputs=outputs, params=params)
    sick = replace(one.exported, program=made["program"], weights=made["weights"])
    methods[ctx.attrs.method] = replace(one, exported=sick)
    return (Model(methods), Files((one.exported.signature,)))
""",
    "m/BUILD.toml": """
[[backend_stack]]
name = "stack"
backends = ["xnnpack", "portable"]
[[torch_model]]
name = "model"
entry = "net.py:Net"
[torch_model.methods.write]
inputs = [
    { name = "x", shape = ["n", 8], dtype = "float32" },
    { name = "row", shape = ["n"], dtype = "int64", range = [0, 3] },
]
dynamic = { n = { min = 1, max = 4 } }
[torch_model.methods.read]
inputs = [{ name = "y", shape = [1, 8], dtype = "float32" }]
outputs = ["found"]
[[sick_module]]
name = "state"
model = ":model"
method = "write"
weight = "key.weight"
[[sick_module]]
name = "output"
model = ":model"
method = "read"
weight = "value.weight"
[[pte_program]]
name = "{fault}_program"
matrix = { fault = ["state", "output"] }
model = ":{fault}"
stack = ":stack"
verify = false
""",
}
TEST = """
[[pte_test]]
name = "{fault}_test"
matrix = { fault = ["state", "output"] }
program = ":{fault}_program"
model = ":model"
MORE
[[pte_test.cases]]
name = "sequence"
steps = [
    { method = "write", count = { row = 0 }, generator = { seed = 1 } },
    { method = "write", count = { row = 2 }, generator = { seed = 2 } },
    { method = "read", calls = 2, generator = { seed = 3 } },
    { method = "write", files = { row = "rows.json" }, feed = { x = { output = "found" } } },
]
"""


def line(text: str) -> str:
    """Return the place of a line in the model's source."""
    return f"m/net.py:{NET.splitlines().index(f'        {text}') + 1}"


def check(found: dict[str, Any]) -> None:
    """Check the findings of both tests, by label."""
    last = {label: test["cases"][-1] for label, test in found.items()}
    state, output = last["//m:state_test"], last["//m:output_test"]
    assert found["//m:state_test"]["cases"][0]["message"].startswith("call 3 of 5 (read): output 'found': ")
    assert state["message"].startswith(
        "case sequence, call 1 of 5 (write): first wrong node: linear (aten.linear.default) of key, in partition p"
    ), state
    assert state["place"] == line("self.cache.index_copy_(0, row, self.key(x))")
    assert output["message"].startswith(
        "case sequence, call 3 of 5 (read): first wrong node: linear (aten.linear.default) of value, in partition p"
    ), output
    assert output["place"] == line("return torch.tanh(self.cache) + self.value(y)")


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_fault_of_a_method_is_found_in_the_call_that_has_it(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, FILES)
    workspace.add("m/BUILD.toml", TEST.replace("MORE", ""))
    check(workspace.test("//...", "--bisect", "--keep-going", code=4))
