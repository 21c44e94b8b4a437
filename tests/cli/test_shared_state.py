"""Methods of one module that share its state, and mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelbuild_runtime import load, read_description

pytestmark = pytest.mark.xdist_group("shared_state")

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(4, 8), persistent=False)
        self.register_buffer("count", torch.full((1,), 5.0))
        self.linear = nn.Linear(8, 8)

    def write(self, x, row):
        self.cache.index_copy_(0, row, self.linear(x))
        self.count.add_(1)
        return self.cache.view(32) + self.count

    def add(self, y):
        self.count.mul_(2)
        self.cache.add_(y)
        return self.linear(self.cache) + self.count

    def only_adds(self, y):
        self.cache.add_(y)
        return self.linear(self.cache) * self.count


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.ones(1))

    def forward(self, z):
        self.count.add_(z)
        return self.count + 0
"""

BUILD = """
[[torch_model]]
name = "net"
entry = "net.py:Net"

[torch_model.methods.write]
inputs = [
    { name = "x", shape = [2, 8], dtype = "float32" },
    { name = "row", shape = [2], dtype = "int64", range = [0, 3] },
]

[torch_model.methods.add]
inputs = [{ name = "y", shape = [4, 8], dtype = "float32" }]

[torch_model.methods.only_adds]
inputs = [{ name = "y", shape = [4, 8], dtype = "float32" }]

[[torch_model]]
name = "counter"
entry = "net.py:Counter"
inputs = [{ name = "z", shape = [1], dtype = "float32" }]

[[backend_stack]]
name = "stack"
backends = ["xnnpack", "portable"]

[[pte_program]]
name = "program"
model = { write = ":net", add = ":net", count = ":counter" }
stack = ":stack"

[[pte_program]]
name = "reading"
model = { write = ":net", only_adds = ":net" }
stack = ":stack"
"""


TEST = """
[[pte_test]]
name = "{name}"
program = ":program"
model = {models}
[[pte_test.cases]]
name = "drawn"
steps = [
    {{ method = "write", calls = 2, generator = {{ seed = 1 }} }},
    {{ method = "count", generator = {{ seed = 2 }} }},
    {{ method = "add", generator = {{ seed = 3 }} }},
    {{ method = "count", calls = 2, generator = {{ seed = 4 }} }},
    {{ method = "write", generator = {{ seed = 5 }}, count = {{ row = 2 }} }},
    {{ method = "add", calls = 2, generator = {{ seed = 6 }} }},
]
"""
ON_A_GPU = """
[[backend_stack]]
name = "gpu_stack"
backends = [{ type = "cuda", min_block_size = 1 }, "portable"]

[[device_target]]
name = "gpu"
arch = "x86_64"
compute_capabilities = ["8.6"]

[[pte_program]]
name = "on_gpu"
model = { write = ":net", add = ":net" }
stack = { write = ":gpu_stack", add = ":stack" }
device = ":gpu"
"""


@pytest.fixture(scope="module")
def workspace(new_workspace: Callable[[], Any]) -> Any:
    made = new_workspace()
    made.write({"MODELBUILD.toml": "", "net.py": NET, "BUILD.toml": BUILD})
    made.build("//:program", "--jobs=2")
    return made


def sequence() -> list[tuple[str, dict[str, np.ndarray]]]:
    """Return calls of all methods in an order in which each depends on the ones before."""
    draw = np.random.default_rng(0).standard_normal
    calls: list[tuple[str, dict[str, np.ndarray]]] = []
    for rows in ([0, 2], [1, 2], [3, 0]):
        calls += [
            ("write", {"x": draw((2, 8)).astype(np.float32), "row": np.array(rows)}),
            ("count", {"z": draw(1).astype(np.float32)}),
            ("add", {"y": draw((4, 8)).astype(np.float32)}),
        ]
    return calls


def check(program: Any) -> None:
    """Compare a program with one module in eager PyTorch, call by call."""
    import torch

    scope: dict[str, Any] = {}
    exec(compile(NET, "net.py", "exec"), scope)
    torch.manual_seed(0)
    net, counter = scope["Net"](), scope["Counter"]()
    with torch.no_grad():
        for method, inputs in sequence():
            called = counter if method == "count" else getattr(net, method)
            wanted = called(*map(torch.from_numpy, inputs.values())).numpy()
            (found,) = program.run(inputs, method).values()
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4, err_msg=method)


def pte(workspace: Any) -> Path:
    return Path(workspace.root) / "modelbuild-out/default/program/program.pte"


def test_each_loaded_program_has_its_own_state(workspace: Any) -> None:
    """Which its methods change together."""
    for _ in range(2):
        check(load(pte(workspace)))


def test_a_pte_test_calls_methods_one_after_another(workspace: Any, tmp_path: Path) -> None:
    other = workspace.copy(tmp_path)
    models = '{ write = ":net", add = ":net", count = ":counter" }'
    # Without a common state in eager PyTorch, the outputs differ from those of the program.
    apart = '{ write = ":net", count = ":counter", add = ":twin" }'
    twin = BUILD[: BUILD.index('[[torch_model]]\nname = "counter"')].replace('name = "net"', 'name = "twin"')
    tests = [
        TEST.format(name="program_test", models=models),
        TEST.format(name="apart_test", models=apart),
    ]
    other.add("BUILD.toml", "".join([*tests, twin]))
    found = other.run("test", "//:all", "--keep-going", "--json")
    cases = {test["label"]: test["cases"][0] for test in found.json["tests"]}
    assert {label: case["status"] for label, case in cases.items()} == {
        "//:program_test": "passed",
        "//:apart_test": "failed",
    }, found.err
    assert cases["//:apart_test"]["message"].startswith("call 4 of 9 (add): output 'output': ")
    measures = {test["label"]: test["measures"] for test in found.json["tests"]}
    assert measures["//:program_test"].keys() >= {"latency_ms", "latency_ms_count", "latency_ms_add"}


def test_a_method_that_only_reads_a_changed_buffer_is_one_line(workspace: Any, tmp_path: Path) -> None:
    ended = workspace.copy(tmp_path).run("build", "//:reading", "--jobs=2")
    assert ended.code == 1
    (error,) = [line for line in ended.err.splitlines() if line.startswith("error: ")]
    assert "method 'write' changes the buffer 'count', and method 'only_adds' only reads it, as a constant" in error


@pytest.mark.exhaustive
def test_a_state_inside_a_partition_is_one_line_before_anything_is_compiled(workspace: Any, tmp_path: Path) -> None:
    other = workspace.copy(tmp_path)
    other.edit("BUILD.toml", BUILD, BUILD + ON_A_GPU)
    ended = other.run("build", "//:on_gpu", "--jobs=2")
    assert ended.code == 1
    (error,) = [line for line in ended.err.splitlines() if line.startswith("error: ")]
    assert "method 'write' changes the buffer 'cache' in cuda:0, inside a partition, and method 'add' uses it" in error


def test_a_program_without_state_is_as_before(workspace: Any, tmp_path: Path) -> None:
    """Its file has no member about state, and no arena for it."""
    other = workspace.copy(tmp_path)
    other.edit("BUILD.toml", 'write = ":net", add = ":net", count', "count")
    other.build("//:program")
    found = json.loads((Path(other.root) / "modelbuild-out/default/program/signature.json").read_text())
    assert set(found["methods"]) == {"count"}
    assert not read_description(pte(other)).contents.shared_state
