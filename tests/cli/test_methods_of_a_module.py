"""A torch_model with methods: exports, a program of all methods or of some, tests, and mistakes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.xdist_group("methods_of_a_module")

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Linear(8, 8)
        self.head = nn.Linear(8, 3)

    def embed(self, x):
        return torch.relu(self.backbone(x))

    def classify(self, x, scale):
        return self.head(self.embed(x)) * scale
"""

BUILD = """
[[torch_model]]
name = "net"
entry = "net.py:Net"
srcs = ["net.py"]

[torch_model.methods.embed]
inputs = [{ name = "x", shape = ["n", 8], dtype = "float32", range = [-1, 1] }]
dynamic = { n = { min = 1, max = 4 } }

[torch_model.methods.classify]
inputs = [{ name = "x", shape = [1, 8], dtype = "float32" }, { name = "factor", shape = [1], dtype = "float32" }]
call = "x, scale=factor"
outputs = ["classes"]

[[backend_stack]]
name = "stack"
backends = [{ type = "xnnpack" }, { type = "portable" }]

[[pte_program]]
name = "both"
model = ":net"
stack = ":stack"

[[pte_program]]
name = "one"
methods = { embed = ":net" }
stack = ":stack"
"""

QUANTIZED = """
[[quantization_recipe]]
name = "int8"
quantizers = [{ type = "xnnpack", mode = "dynamic" }]

[[quantized_model]]
name = "quantized"
model = ":net"
recipe = ":int8"
"""

TESTS = """
[[pte_test]]
name = "{method}_test"
matrix = { method = ["classify", "embed"] }
program = ":both"
method = "{method}"
model = ":net"
inputs = [{ name = "noise", generator = { seed = 1 } }]
"""


@pytest.fixture(scope="module")
def built(new_workspace: Callable[[], Any]) -> Any:
    """Return a workspace in which both programs are built. Tests change copies of it."""
    workspace = new_workspace()
    workspace.write({"MODELBUILD.toml": "", "net.py": NET, "BUILD.toml": BUILD})
    ran = workspace.build("//:both", "//:one", "--jobs=2").statuses
    methods = ("classify", "embed")
    assert set(ran) == {
        *(f"//:net#export:{method}" for method in methods),
        *(f"//:both#partition:{method}" for method in methods),
        *(f"//:both#compile:{method}.p0" for method in methods),
        *("//:both#plan", "//:both#emit", "//:one#partition:embed", "//:one#plan", "//:one#compile:embed.p0"),
        "//:one#emit",
    }
    return workspace


@pytest.fixture
def module(built: Any, tmp_path: Path) -> Any:
    return built.copy(tmp_path)


def test_another_input_of_a_method_reruns_its_actions(module: Any) -> None:
    module.edit("BUILD.toml", "max = 4", "max = 5")
    steps = ("partition:embed", "compile:embed.p0", "emit")  # the plan is equal
    assert module.ran("//:both") == {"//:net#export:embed", *(f"//:both#{step}" for step in steps)}


def test_a_program_has_the_methods_with_their_own_inputs(module: Any) -> None:
    methods = module.run("inspect", "//:both", "--json").json["methods"]
    assert {each["name"]: [port["name"] for port in each["inputs"]] for each in methods} == {
        "classify": ["x", "factor"],
        "embed": ["x"],
    }
    assert methods[0]["outputs"][0]["name"] == "classes"
    (only,) = module.run("inspect", "//:one", "--json").json["methods"]
    assert only["name"] == "embed"


def test_a_test_compares_each_method_with_the_module(module: Any) -> None:
    module.edit("BUILD.toml", BUILD, BUILD + TESTS)
    ended = module.run("test", "//...")
    assert (ended.code, ended.out.count("PASSED")) == (0, 2), ended.err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{ embed = ", "{ embod = ", "BUILD.toml:27:13: ':net' has no method 'embod'; did you mean 'embed'?"),
        (
            'srcs = ["net.py"]\n',
            'srcs = ["net.py"]\noutputs = ["y"]\n',
            "BUILD.toml:6:1: each of the 'methods' has its own 'outputs'; expected none beside them",
        ),
        ("max = 4", "max = 0", "BUILD.toml:9:13: dimension 'n': expected min <= example <= max"),
        ("scale=factor", "scale=fact", "BUILD.toml:13:1: attribute 'call': "),
        ("shape = [1, 8]", 'shape = ["m", 8]', "BUILD.toml:12:25: input 'x': dimension 'm' is not in the table"),
        ('entry = "net.py:Net"', 'archive = "net.py"', "an archive has the method forward alone; expected 'entry'"),
        (
            'stack = ":stack"\n\n',
            'stack = ":stack"\nengines = { head = ":net" }\n\n',
            "submodules of one model; expected 'model', not ':net', which has methods",
        ),
        (
            BUILD,
            BUILD + QUANTIZED,
            "':net' is a torch_model with methods, which only pte_program and pte_test take; expected a target of",
        ),
        ("methods.classify", '"methods"."a b"', "'a b' is not the name of a method; expected letters"),
    ],
    ids=["unknown", "beside", "bounds", "call", "dimension", "archive", "engines", "quantized", "name"],
)
def test_a_mistake_is_one_line(module: Any, old: str, new: str, message: str) -> None:
    module.edit("BUILD.toml", old, new)
    ended = module.run("aquery", "//...")
    assert ended.code == 3
    (line,) = ended.err.strip().splitlines()
    assert message in line


def test_a_method_that_the_module_lacks_is_one_line(module: Any) -> None:
    module.edit("BUILD.toml", "methods.embed]", "methods.embod]")
    ended = module.run("build", "//:net")
    assert (
        "error: export //:net embod of net.py:Net: net.py:Net has no method 'embod'; did you mean 'embed'?" in ended.err
    )
