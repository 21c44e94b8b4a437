"""A program with several models as methods: actions that run after a change, and the commands that use a method."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.format_shapes import check_format

pytestmark = pytest.mark.xdist_group("several_methods")

NETS = """
import torch
from torch import nn


class Net(nn.Module):
    '''A backbone and a head, with an operator between them that no backend here takes.'''

    def __init__(self, classes, seed=1):
        super().__init__()
        torch.manual_seed(seed)
        self.backbone = nn.Linear(8, 8)
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        return self.head(torch.erf(torch.relu(self.backbone(x))))
"""

BUILD = """
[[torch_model]]
name = "net_{classes}"
matrix = { classes = [2, 3, 4] }
entry = "nets.py:Net"
kwargs = { classes = "{classes}" }
inputs = [{ name = "x", shape = [1, 8], dtype = "float32", range = [-1, 1] }]

[[backend_stack]]
name = "stack"
backends = ["xnnpack", "portable"]

[[pte_program]]
name = "heads"
model = { two = ":net_2", three = ":net_3" }
stack = ":stack"
"""

TEST = """
[[torch_model]]
name = "other"
entry = "nets.py:Net"
kwargs = { classes = 3, seed = 2 }
inputs = [{ name = "x", shape = [1, 8], dtype = "float32" }]

[[pte_test]]
name = "right_test"
program = ":heads"
method = "three"
model = ":net_3"
cases = [{ name = "noise", generator = { seed = 1 } }]
limits = { partitions = 2, delegated = 0.5 }

[[pte_test]]
name = "wrong_test"
program = ":heads"
method = "three"
model = ":other"
cases = [{ name = "noise", generator = { seed = 1 } }]
limits = { partitions = 1 }
"""


@pytest.fixture(scope="module")
def built(new_workspace: Callable[[], Any]) -> Any:
    """Return a workspace in which //:heads is built. Tests change copies of it."""
    workspace = new_workspace()
    workspace.write({"MODELBUILD.toml": "", "nets.py": NETS, "BUILD.toml": BUILD})
    ran = workspace.build("//:heads", "--jobs=2").statuses
    assert set(ran) == {
        *("//:net_2#export", "//:net_3#export"),
        *("//:heads#partition:two", "//:heads#partition:three", "//:heads#emit"),
        "//:heads#verify",
        *("//:heads#weights:two", "//:heads#weights:three"),
        *(
            f"//:heads#{step}:{method}.{part}"
            for step in ("compile", "store")
            for method in ("two", "three")
            for part in ("p0", "p1")
        ),
    }
    assert sorted(ran[f"//:heads#compile:{method}.p0"] for method in ("two", "three")) == ["cached", "ran"]
    return workspace


@pytest.fixture
def heads(built: Any, tmp_path: Path) -> Any:
    return built.copy(tmp_path)


def test_the_order_of_methods_changes_nothing(heads: Any) -> None:
    heads.edit("BUILD.toml", 'two = ":net_2", three = ":net_3"', 'three = ":net_3", two = ":net_2"')
    assert heads.ran("//:heads") == set()


def test_another_model_of_a_method_reruns_the_actions_of_this_method(heads: Any) -> None:
    heads.edit("BUILD.toml", 'two = ":net_2"', 'two = ":net_4"')
    # Its plan has other sizes.
    steps = ("partition:two", "weights:two", "compile:two.p1", "store:two.p1", "emit", "verify")
    assert heads.ran("//:heads") == {"//:net_4#export", *(f"//:heads#{step}" for step in steps)}


@pytest.mark.exhaustive
def test_a_method_more_runs_its_actions(heads: Any) -> None:
    heads.edit("BUILD.toml", "{ two", '{ four = ":net_4", two')
    steps = ("partition:four", "compile:four.p1", "emit", "verify")
    assert heads.ran("//:heads") == {"//:net_4#export", *(f"//:heads#{step}" for step in steps)}


def test_a_method_runs_by_its_name(heads: Any) -> None:
    (heads.root / "x.json").write_text(json.dumps([[1.0] * 8]))
    heads.edit("BUILD.toml", "model = {", "# A comment.\nmodel = {")  # so that the targets are declared again
    given = ("//:heads", "--input=x=x.json", "--output-dir=out", "--repeat=1")
    for arguments, message in {
        (): "//:heads has several methods; expected --method with one of: three, two",
        ("--method=tow",): "no method 'tow'; methods: three, two; did you mean 'two'?",
        ("--method=two", "--input=y=x.json"): "no input 'y'; inputs: x",
    }.items():
        ended = heads.run("run", *given, *arguments)
        assert (ended.code, ended.err.strip().splitlines()[-1]) == (2, f"error: {message}")
    ended = heads.run("run", *given, "--method=three", "--json")
    assert (ended.code, ended.json["method"]) == (0, "three"), ended.err
    assert ended.json["outputs"][0]["shape"] == [1, 3]
    assert np.load(heads.root / "out" / f"{ended.json['outputs'][0]['name']}.npy").shape == (1, 3)
    # The target is now up to date, so that only the program knows its methods.
    ended = heads.run("run", *given)
    assert (ended.code, ended.err.strip().endswith("heads.pte: several methods; it has: three, two")) == (2, True)
    ended = heads.run("run", *given, "--method=thre")
    assert ended.err.strip().endswith("heads.pte: no method 'thre'; it has: three, two; did you mean 'three'?")


def test_inspect_lists_the_partitions_of_each_method(heads: Any) -> None:
    found = heads.run("inspect", "//:heads", "--json").json
    assert {method["name"]: [each["id"] for each in method["partitions"]] for method in found["methods"]} == {
        "three": ["three.p0", "three.p1"],
        "two": ["two.p0", "two.p1"],
    }
    assert [port["name"] for method in found["methods"] for port in method["inputs"]] == ["x", "x"]
    signature = json.loads((heads.root / "modelbuild-out/default/heads/signature.json").read_text())
    check_format("signature", signature, maps=("methods",))
    sizes = [each["nodes"] for method in found["methods"] for each in method["partitions"]]
    assert None not in sizes


@pytest.mark.exhaustive
def test_a_test_compares_a_method_with_a_model(heads: Any) -> None:
    heads.edit("BUILD.toml", BUILD, BUILD + TEST)
    ended = heads.run("test", "//...", "--bisect")
    assert ended.code == 4, ended.err
    assert "//:right_test  PASSED" in ended.out
    assert "2 delegates, expected at most 1" in ended.err
    assert "first wrong node: linear" in ended.err


GPU_BUILD = """
[[backend_stack]]
name = "gpu_stack"
backends = [
    {{ type = "{backend}", min_block_size = 1, {excluding} = ["aten.erf.default"] }},
    {{ type = "portable" }},
]

[[device_target]]
name = "gpu"
arch = "x86_64"
compute_capabilities = ["8.6"]

[[pte_program]]
name = "gpu_heads"
model = {{ two = ":net_2", three = ":net_3" }}
stack = ":gpu_stack"
device = ":gpu"
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("backend", "excluding", "id"),
    [("tensorrt", "exclude_ops", "TensorRTBackend"), ("cuda", "exclude_ops", "CudaBackend")],
)
def test_methods_for_a_gpu_share_what_is_equal(
    heads: Any, request: pytest.FixtureRequest, backend: str, excluding: str, id: str
) -> None:
    heads.edit("BUILD.toml", BUILD, BUILD + GPU_BUILD.format(backend=backend, excluding=excluding))
    if backend == "cuda":
        request.getfixturevalue("know_runtime")(heads.root, heads.cache, "//:gpu_heads")
    statuses = heads.build("//:gpu_heads").statuses
    assert sorted(statuses[f"//:gpu_heads#compile:{method}.p0"] for method in ("two", "three")) == ["cached", "ran"]
    three, two = heads.run("inspect", "//:gpu_heads", "--json").json["methods"]
    assert {each["backend"] for each in (*three["partitions"], *two["partitions"])} == {id}
    (shared, head), (other, other_head) = three["partitions"], two["partitions"]
    assert shared["offset"] == other["offset"]
    assert head["offset"] != other_head["offset"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'model = { two = ":net_2", three = ":net_3" }',
            "",
            "BUILD.toml:13:1: pte_program 'heads' lacks the attribute 'model'",
        ),
        (
            '{ two = ":net_2", three = ":net_3" }',
            "{}",
            "BUILD.toml:15:1: expected the label of a torch_model, or a table with one or more",
        ),
        (
            "model = { two",
            "methods = { two",
            "BUILD.toml:15:1: unknown attribute 'methods' of pte_program 'heads'; expected 'model'",
        ),
        (
            "{ two",
            '{ "a.b"',
            "BUILD.toml:15:11: attribute 'model.a.b': 'a.b' is not the name of a method; expected letters, digits "
            "and underscores",
        ),
        (
            'stack = ":stack"\n',
            'stack = ":stack"\nengines = { head = ":net_2" }\n',
            "BUILD.toml:17:1: engines take the place of submodules of one model; "
            "expected one model with 'inputs', not a table of models",
        ),
        (BUILD, BUILD + TEST.replace('method = "three"\n', ""), "expected 'method', one of: three, two"),
        (BUILD, BUILD + TEST.replace('"three"', '"thre"'), "':heads' has no method 'thre'; did you mean 'three'?"),
    ],
    ids=["none", "empty", "old name", "name", "engines", "no method", "unknown method"],
)
def test_a_mistake_is_one_line(heads: Any, old: str, new: str, message: str) -> None:
    heads.edit("BUILD.toml", old, new)
    ended = heads.run("aquery", "//...")
    assert ended.code == 3
    (line,) = ended.err.strip().splitlines()
    assert message in line
