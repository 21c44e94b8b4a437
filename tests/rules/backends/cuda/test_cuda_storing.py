"""Weights are data: other values leave a partition's program, and its library, as it is; another structure does not."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modelbuild_rules.backend_api.steps.named_data import read_named
from modelbuild_rules.backend_api.steps.partition_files import read_partition, read_structure
from modelbuild_rules.backend_api.steps.recipes import read_weights
from modelbuild_rules.backends.cuda.steps.constants import evaluated, layout
from modelbuild_rules.backends.cuda.steps.generate.stored_weights import change_weights
from modelbuild_rules.backends.cuda.steps.storing import store
from tests.program_build import program_build
from tests.workspace_builder import Workspace

pytestmark = pytest.mark.xdist_group("cuda")


def files(folder: Path) -> Mapping[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Net(nn.Module):
    """Weights of all kinds: folded, padded, channels-last, used twice, of no dimension, integers and booleans."""

    def __init__(self, edit: Callable[[Any], object] = lambda net: None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem, self.norm = nn.Conv2d(3, 8, 7, bias=False), nn.BatchNorm2d(8)
        self.one, self.other = nn.Linear(8, 8), nn.Linear(8, 8)
        self.factor = nn.Parameter(torch.tensor(0.5))
        self.register_buffer("shift", torch.arange(8))
        self.register_buffer("mask", torch.arange(8) > 3)
        with torch.no_grad():
            edit(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.stem(x)).mean((2, 3))
        x = self.other(torch.relu(self.one(x))) + self.one(x) * self.factor
        return torch.where(self.mask, x + self.shift, x)


def tied(net: Any) -> None:
    net.other.weight = net.one.weight


def strided(net: Any) -> None:
    net.one.weight = nn.Parameter(net.one.weight.t().contiguous().t())


def wider(net: Any) -> None:
    net.shift = net.shift.to(torch.int32)


def special(net: Any) -> None:
    net.one.weight[0, :4] = torch.tensor([math.nan, -0.0, math.inf, 1e-45])
    net.norm.weight.zero_()
    net.stem.weight.zero_()


VALUES: Mapping[str, Callable[[Any], object]] = {
    "random": lambda net: [each.add_(torch.randn_like(each)) for each in net.parameters()],
    "statistics": lambda net: (net.norm.running_var.uniform_(0.5, 2), net.norm.running_mean.uniform_()),
    "equal": lambda net: net.other.weight.copy_(net.one.weight),
    "zero": lambda net: [each.zero_() for each in net.parameters()],
    "special": special,
    "integers": lambda net: net.shift.add_(7),
    "booleans": lambda net: net.mask.logical_not_(),
    "no dimension": lambda net: net.factor.fill_(-2),
}
STRUCTURES = {"tied": tied, "wider": wider}


@pytest.fixture
def lowered(lower_to: Callable[[Any, Path], Path], tmp_path: Path) -> Callable[..., Path]:
    """Lower a net with edits; return its partition."""

    def lower(name: str, edit: Callable[[Any], object] = lambda net: None) -> Path:
        program = torch.export.export(Net(edit).eval(), (torch.ones(1, 3, 12, 12),))
        return lower_to(program, tmp_path / name)

    return lower


def stored(partition: Path, folder: Path) -> Mapping[str, bytes]:
    """Store all weights of a partition by their recipes, as its library would need them; return their bytes."""
    program, _ = read_structure(partition / "program")
    recipes = change_weights(program)
    tensors = {**program.state_dict, **program.constants}
    constants = [
        {"line": f"{name} line", "state": "-", "layout": layout(each), "recipe": recipes.get(name, name)}
        for name, each in tensors.items()
    ]
    (code := folder / "code").mkdir(parents=True)
    (code / "library.so").write_bytes(b"a library")
    (code / "about.json").write_text("{}")
    (code / "constants.json").write_text(json.dumps(constants))
    (made := folder / "compiled").mkdir()
    store(code, partition, made)
    assert (made / "about.json").read_text() == "{}"
    named = {each.key: each.path.read_bytes() for each in read_named(made)}
    library, listed = (made / "processed.bin").read_text().split("\n\n")
    assert named[library] == b"a library"
    lines = [line.split() for line in named[listed].decode().splitlines()]
    assert len(named) == 2 + len({key for *_, key, _ in lines})
    for *_, key, _ in lines:
        assert key == f"{hashlib.sha256(named[key]).hexdigest()}_constant"
    return {name: named[key] for name, _, key, _ in lines}


@pytest.mark.sampled
@pytest.mark.parametrize("name", VALUES)
def test_other_values_are_another_partition_s_weights_alone(
    name: str, lowered: Callable[..., Path], tmp_path: Path
) -> None:
    one, other = lowered("one"), lowered("other", VALUES[name])
    assert files(one / "program") == files(other / "program")
    assert files(one / "weights") != files(other / "weights")
    assert stored(one, tmp_path / "stored.one") != stored(other, tmp_path / "stored.other")


@pytest.mark.sampled
@pytest.mark.parametrize("name", STRUCTURES)
def test_another_type_or_sharing_of_weights_is_another_program(
    name: str, lowered: Callable[..., Path], tmp_path: Path
) -> None:
    one, other = lowered("one"), lowered("other", STRUCTURES[name])
    assert files(one / "program") != files(other / "program")
    stored(other, tmp_path / "stored")


def test_strides_of_a_model_s_weights_do_not_matter(lowered: Callable[..., Path]) -> None:
    assert files(lowered("one")) == files(lowered("other", strided))


@pytest.mark.parametrize("name", ["random", "special", "tied"])
def test_recipes_do_not_depend_on_values_and_give_what_values_would_give(
    name: str, lowered: Callable[..., Path], tmp_path: Path
) -> None:
    partition = lowered("net", {**VALUES, **STRUCTURES}[name])
    program, _ = read_partition(partition)
    weights = read_weights(partition)
    recipes = change_weights(program)
    assert recipes == change_weights(read_structure(partition / "program")[0])
    assert {recipe[0] for recipe in recipes.values()} == {"channels last", "folded bias"}
    found = stored(partition, tmp_path / "stored")
    conv = next(name for name, recipe in recipes.items() if recipe[0] == "channels last")
    _, (_, (_, weight, _, _, variance, epsilon, scale, _), more) = recipes[conv]
    factor = weights[scale].double() / (weights[variance].double() + epsilon).sqrt()
    wanted = torch.nn.functional.pad(weights[weight].double() * factor[:, None, None, None], [0, 0, 0, 0, 0, more])
    made = evaluated(recipes[conv], weights)
    assert (more, made.shape[1], made.stride(1)) == (1, 4, 1)
    torch.testing.assert_close(made.double(), wanted, rtol=1e-6, atol=0)
    assert found[conv] == made.permute(0, 2, 3, 1).contiguous().numpy().tobytes()
    for each in weights.keys() - recipes.keys():
        flat = torch.empty(0, dtype=torch.uint8).set_(weights[each].untyped_storage())
        assert found[each] == flat.numpy().tobytes(), each


def test_weights_of_another_layout_are_refused(lowered: Callable[..., Path], tmp_path: Path) -> None:
    one, other = lowered("one"), lowered("other", wider)
    stored(one, tmp_path / "stored")
    (tmp_path / "again").mkdir()
    with pytest.raises(ValueError, match=r"was compiled as .*int64.* and is .*int32"):
        store(tmp_path / "stored/code", other, tmp_path / "again")


MODEL = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(SEED)
        self.stem, self.norm = nn.Conv2d(3, 8, 7, bias=False), nn.BatchNorm2d(8)
        self.one, self.other = nn.Linear(8, 8), nn.Linear(8, 8)
        self.other.weight = self.one.weight
        nn.init.uniform_(self.norm.weight)
        self.norm.running_var.uniform_(0.5, 2)
        self.factor = nn.Parameter(torch.rand(()))
        self.register_buffer("shift", torch.arange(8))
        self.register_buffer("mask", torch.arange(8) > 3)

    def forward(self, x):
        x = self.norm(self.stem(x)).mean((2, 3))
        x = self.other(torch.relu(self.one(x))) + self.one(x) * self.factor
        return torch.where(self.mask, x + self.shift, x)
"""
BUILD = program_build('{ type = "cuda", min_block_size = 1 }, { type = "portable" }', shape="[1, 3, 12, 12]")


@pytest.mark.slow
@pytest.mark.exhaustive
def test_new_weights_compile_nothing_and_give_the_program_of_a_whole_build(know_runtime: Any, tmp_path: Path) -> None:
    workspace, whole = Workspace(tmp_path / "workspace"), Workspace(tmp_path / "whole")
    for each, seed in ((workspace, 1), (whole, 2)):
        each.write({"MODELBUILD.toml": "", "BUILD.toml": BUILD, "net.py": MODEL.replace("SEED", str(seed))})
        know_runtime(each.root, each.cache, "//:program")
    workspace.build("//:program")
    made = next(workspace.root.glob("modelbuild-out/*/program/program.pte"))
    before = made.read_bytes()
    workspace.edit("net.py", "manual_seed(1)", "manual_seed(2)")
    ran = workspace.build("//:program").statuses
    short = {name.partition("#")[2]: status for name, status in ran.items()}
    assert {name for name, status in short.items() if status == "ran"} == {"export", "weights", "store:p0", "emit"}
    assert {"partition", "compile:p0", "wrapper:p0", "link:p0"} <= short.keys()
    whole.build("//:program")
    other = next(whole.root.glob("modelbuild-out/*/program/program.pte"))
    assert before != made.read_bytes() == other.read_bytes()
