"""Equal partitions are compiled once, at any position in any program.

One build makes five programs for a backend; the keys of their compile actions show which of them share a result.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.xdist_group("shared_partitions")

# erf stands between partitions: no backend here takes it.
NETS = """
import torch
from torch import nn


class Trunk(nn.Module):
    '''Layers that are registered in another order than they are used in, branches, a buffer.'''

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.down = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.first = nn.Linear(8, 8)
        self.register_buffer("scale", torch.full((8,), 0.5))

    def forward(self, x):
        y = self.second(torch.relu(self.first(x)))
        return torch.relu(y + self.down(x) * self.scale) + x


class Half(nn.Module):
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return torch.sigmoid(torch.tanh(torch.relu(self.layer(x)))) + x


class Tail(nn.Module):
    def forward(self, x):
        return torch.tanh(torch.relu(x) * x)


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.neck, self.tail = Trunk(), Half(2), Tail()

    def forward(self, x):
        return self.tail(self.neck(torch.erf(self.trunk(x))))


class Front(Base):
    '''Something in front of what Base does.'''

    def __init__(self):
        super().__init__()
        self.front = Half(3)

    def forward(self, x):
        return super().forward(torch.erf(self.front(x)))


class Gap(Base):
    '''A gap in the second partition of Base.'''

    def forward(self, x):
        return self.tail(torch.erf(self.neck(torch.erf(self.trunk(x)))))


class Shared(nn.Module):
    '''Another model with the same trunk, under another name and behind other layers.'''

    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.after = nn.Linear(8, 3)
        self.inner = nn.ModuleDict({"backbone": Trunk()})

    def forward(self, x, y):
        return self.after(torch.erf(self.inner["backbone"](torch.erf(x + y)))), torch.erf(y)


class Twins(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = Trunk(), Trunk()

    def forward(self, x):
        return self.two(torch.erf(self.one(x)))
"""

MODEL = """
[[torch_model]]
name = "{name}_model"
entry = "nets.py:{name}"
inputs = [{inputs}]
allow_missing = true

[[pte_program]]
name = "{name}"
model = ":{name}_model"
stack = ":stack"
device = ":device"
"""

STACK = """
[[backend_stack]]
name = "stack"
backends = [{{ {backend} }}, "portable"]

[[device_target]]
name = "device"
arch = "x86_64"
compute_capabilities = ["8.6"]
"""

BACKENDS = {
    "xnnpack": 'type = "xnnpack"',
    "tensorrt": 'type = "tensorrt", exclude_ops = ["aten.erf.default"]',
    "cuda": 'type = "cuda", exclude_ops = ["aten.erf.default"]',
}
MODELS = {name: ["x", "y"] if name == "Shared" else ["x"] for name in ("Base", "Front", "Gap", "Shared", "Twins")}

Compiled = Mapping[str, frozenset[str]]
"""The keys of the compile actions of each program."""


class Built:
    """The programs of all models, built in one workspace for a backend."""

    def __init__(self, workspace: Any, backend: str, request: pytest.FixtureRequest) -> None:
        tensors = {
            name: ", ".join(f'{{ name = "{each}", shape = [2, 8], dtype = "float32" }}' for each in inputs)
            for name, inputs in MODELS.items()
        }
        models = "".join(MODEL.format(name=name, inputs=inputs) for name, inputs in tensors.items())
        workspace.write({"MODELBUILD.toml": "", "nets.py": NETS})
        workspace.write({"BUILD.toml": models + STACK.format(backend=BACKENDS[backend])})
        if backend == "cuda":
            request.getfixturevalue("know_runtime")(workspace.root, workspace.cache, "//:Base")
        ended = workspace.run("build", *(f"//:{name}" for name in MODELS), "--jobs=2", "--json")
        assert ended.code == 0, ended.err + ended.out
        compiling = [action for action in ended.json["actions"] if action["mnemonic"] == "compile"]
        self.root: Path = workspace.root
        self.ran = [action["key"] for action in compiling if action["status"] == "ran"]
        self.keys: Compiled = {
            name: frozenset(a["key"] for a in compiling if a["owner"] == f"//:{name}") for name in MODELS
        }


@pytest.fixture(
    scope="module",
    params=["xnnpack", *(pytest.param(each, marks=pytest.mark.exhaustive) for each in ("tensorrt", "cuda"))],
)
def built(request: pytest.FixtureRequest, new_workspace: Callable[[], Any]) -> Built:
    return Built(new_workspace(), request.param, request)


def test_each_distinct_partition_is_compiled_once(built: Built) -> None:
    assert sorted(built.ran) == sorted(frozenset().union(*built.keys.values()))


def test_equal_blocks_of_one_program_are_one_partition(built: Built) -> None:
    assert len(built.keys["Twins"]) == 1
    assert built.keys["Twins"] < built.keys["Base"]


def test_an_operator_in_front_recompiles_nothing(built: Built) -> None:
    assert len(built.keys["Base"]) == 2
    assert built.keys["Base"] < built.keys["Front"]
    assert len(built.keys["Front"]) == 3


def test_a_gap_in_a_partition_recompiles_that_one_alone(built: Built) -> None:
    assert built.keys["Base"] & built.keys["Gap"] == built.keys["Twins"]


def test_models_with_one_trunk_share_what_is_compiled_of_it(built: Built) -> None:
    assert built.keys["Base"] & built.keys["Shared"] == built.keys["Twins"]


@pytest.fixture
def nets(built: Built) -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("shared_nets", built.root / "nets.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["shared_nets"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["shared_nets"]


@pytest.mark.parametrize("built", ["xnnpack"], indirect=True)
@pytest.mark.parametrize("name", MODELS)
def test_the_programs_compute_what_their_models_do(built: Built, nets: ModuleType, name: str) -> None:
    import torch

    import modelbuild_runtime

    inputs = {each: torch.randn(2, 8) for each in MODELS[name]}
    module = getattr(nets, name)().eval()
    program = modelbuild_runtime.load(next(built.root.glob(f"modelbuild-out/*/{name}/{name}.pte")))
    found = program.run({key: value.numpy() for key, value in inputs.items()})
    with torch.no_grad():
        expected = module(*inputs.values())
    expected = expected if isinstance(expected, tuple) else (expected,)
    for result, wanted in zip(found.values(), expected, strict=True):
        torch.testing.assert_close(torch.from_numpy(result), wanted, atol=1e-5, rtol=1e-5)
