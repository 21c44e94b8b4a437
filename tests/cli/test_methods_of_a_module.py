"""A torch_model with methods: exports, a program of all methods or of some, tests, and mistakes."""

from __future__ import annotations

import json
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

    def forward(self, x):
        return torch.relu(self.backbone(x))

    def embed(self, x):
        return self(x)  # a method may call the module

    def classify(self, x, scale):
        return self.head(self.embed(x)) * scale
"""

BUILD = """
[[torch_model]]
name = "net"
entry = "net.py:Net"

[torch_model.methods.embed]
inputs = [{ name = "x", shape = ["n", 8], dtype = "float32", range = [-1, 1] }]
dynamic = { n = { min = 1, max = 4 } }

[torch_model.methods.classify]
inputs = [{ name = "x", shape = [1, 8], dtype = "float32" }, { name = "factor", shape = [1], dtype = "float32" }]
call = "x, scale=factor"
outputs = ["classes"]

[[backend_stack]]
name = "stack"
backends = ["xnnpack", "portable"]

[[pte_program]]
name = "both"
model = ":net"
stack = ":stack"

[[pte_program]]
name = "one"
model = { embed = ":net" }
stack = ":stack"
"""

BUNDLE = """
[[runtime_bundle]]
name = "bundle"
program = ":net"
"""

QUANTIZED = """
[[quantization_recipe]]
name = "int8"
quantizers = [{ type = "xnnpack", mode = "dynamic" }]

[[quantized_model]]
name = "quantized"
model = ":net"
recipe = ":int8"

[[backend_stack]]
name = "only_linears"
backends = [{ type = "xnnpack", precisions = ["dynamic_quant"], per_op_mode = true }, "portable"]

[[pte_program]]
name = "int8_program"
model = ":quantized"
stack = { classify = ":only_linears", embed = ":stack" }

[[pte_test]]
name = "int8_{method}_test"
matrix = { method = ["classify", "embed"] }
program = ":int8_program"
method = "{method}"
model = ":quantized"
cases = [{ name = "noise", generator = { seed = 1 } }]
tolerance = { abs = 0.05 }
"""

STATIC = QUANTIZED.replace(', mode = "dynamic"', "").replace(', precisions = ["dynamic_quant"]', "")
CALIBRATIONS = 'recipe = ":int8"\ncalibration = {'

TESTS = """
[[pte_test]]
name = "{method}_test"
matrix = { method = ["classify", "embed"] }
program = ":both"
method = "{method}"
model = ":net"
cases = [{ name = "noise", generator = { seed = 1 } }]
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
        *(f"//:both#weights:{method}" for method in methods),
        *(f"//:both#{step}:{method}.p0" for step in ("compile", "store") for method in methods),
        *("//:both#emit", "//:one#partition:embed", "//:one#weights:embed"),
        *("//:one#compile:embed.p0", "//:one#store:embed.p0"),
        *("//:one#emit", "//:one#verify", "//:both#verify"),
    }
    return workspace


@pytest.fixture
def module(built: Any, tmp_path: Path) -> Any:
    return built.copy(tmp_path)


def test_another_input_of_a_method_reruns_its_actions(module: Any) -> None:
    module.edit("BUILD.toml", "max = 4", "max = 5")
    steps = ("partition:embed", "weights:embed", "compile:embed.p0", "store:embed.p0", "emit", "verify")
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


@pytest.mark.slow
@pytest.mark.exhaustive
def test_each_method_is_quantized_by_actions_of_its_own_and_lowered_with_its_stack(module: Any) -> None:
    module.edit("BUILD.toml", BUILD, BUILD + QUANTIZED)
    module.build("//:int8_program")
    ended = module.run("test", "//:int8_classify_test", "//:int8_embed_test")
    assert (ended.code, ended.out.count("PASSED")) == (0, 2), ended.err
    delegation = json.loads((module.root / "modelbuild-out/default/int8_program/delegation.json").read_text())
    (product,) = [each for each in delegation["nodes"] if each["op"].startswith("aten.mul")]
    assert (product["method"], product["backend"]) == ("classify", "portable")
    assert {each["id"].partition(".")[0] for each in delegation["partitions"]} == {"classify", "embed"}

    ended = module.run("quantize-report", "//:quantized", "--method=embed", "--json")
    assert (ended.code, [each["name"] for each in ended.json["layers"]]) == (0, ["backbone"]), ended.err
    assert (ended.json["target"], ended.json["method"]) == ("//:quantized", "embed")
    ended = module.run("quantize-report", "//:quantized", "--method=embed")
    assert ended.out.startswith("//:quantized, method embed: error "), ended.out
    for arguments, problem in {
        (): "no output group 'sensitivity' in //:quantized; did you mean 'embed.sensitivity'?",
        ("--method=embod",): "no output group 'embod.sensitivity' in //:quantized; did you mean 'embed.sensitivity'?",
    }.items():
        ended = module.run("quantize-report", "//:quantized", *arguments)
        assert (ended.code, ended.err.splitlines()[-1]) == (2, f"error: {problem}")

    # A change of one method quantizes this method alone.
    module.edit("BUILD.toml", "max = 4", "max = 5")
    ran = module.ran("//:int8_program")
    assert {each for each in ran if each.startswith("//:quantized")} == {
        "//:quantized#convert:embed",
        "//:quantized#expected:embed",
    }
    assert not [each for each in ran if "classify" in each]
    # Another stack of a method lowers this method alone.
    module.edit("BUILD.toml", '{ classify = ":only_linears", embed = ":stack" }', '":stack"')
    ran = module.ran("//:int8_program")
    assert "//:int8_program#partition:classify" in ran
    assert all("classify" in each or each.endswith(("#emit", "#verify")) for each in ran)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{ embed = ", "{ embod = ", "BUILD.toml:26:11: ':net' has no method 'embod'; did you mean 'embed'?"),
        (
            'entry = "net.py:Net"\n',
            'entry = "net.py:Net"\noutputs = ["y"]\n',
            "BUILD.toml:5:1: each of the 'methods' has its own 'outputs'; expected none beside them",
        ),
        ("max = 4", "max = 0", "BUILD.toml:8:13: dimension 'n': expected min <= example <= max, got 1, 1 and 0"),
        ("scale=factor", "scale=fact", "BUILD.toml:12:1: attribute 'call': "),
        ("shape = [1, 8]", 'shape = ["m", 8]', "BUILD.toml:11:25: input 'x': dimension 'm' is not in the table"),
        (
            'entry = "net.py:Net"',
            'exported = "net.py"',
            "an exported program has the method forward alone; expected 'entry'",
        ),
        (
            'stack = ":stack"\n\n',
            'stack = ":stack"\nengines = { head = ":net" }\n\n',
            "submodules of one model; expected one model with 'inputs', not ':net', which has methods",
        ),
        (
            BUILD,
            BUILD + BUNDLE,
            "':net' is a torch_model; expected a target of pte_program",
        ),
        (
            BUILD,
            BUILD + STATIC,
            "':int8' observes the ranges of activations; expected 'calibration', a dataset of 'classify'",
        ),
        (
            BUILD,
            BUILD + STATIC.replace('recipe = ":int8"', CALIBRATIONS + ' embod = ":net" }'),
            "BUILD.toml:37:17: ':net' has no method 'embod'; did you mean 'embed'?",
        ),
        (
            BUILD,
            BUILD + QUANTIZED.replace("{ classify = ", "{ classif = "),
            "the program has no method 'classif'; did you mean 'classify'?",
        ),
        (
            BUILD,
            BUILD + QUANTIZED.replace(', embed = ":stack"', ""),
            "no backends of 'embed' are given; expected a list of some of",
        ),
        (
            BUILD,
            BUILD + QUANTIZED.replace('["dynamic_quant"]', '["fp32"]'),
            "its recipe has dynamic ranges, and 'dynamic_quant' is not among the precisions of xnnpack",
        ),
        ("methods.classify", '"methods"."a b"', "'a b' is not the name of a method; expected letters"),
    ],
    ids=[
        "unknown",
        "beside",
        "bounds",
        "call",
        "dimension",
        "exported",
        "engines",
        "bundle",
        "data",
        "label",
        "stacks",
        "stack",
        "unfit",
        "name",
    ],
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
