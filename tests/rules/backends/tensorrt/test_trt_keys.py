"""Keys of the actions that build engines: models that differ anywhere in a partition never share an engine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import modelbuild
import modelbuild_rules
from modelbuild.actions import Action, Output, StagedInput
from modelbuild.code.step_sources import StepCode
from modelbuild.execution.keys import key_of, material_of
from modelbuild.execution.resolver import Resolver
from modelbuild.session.source_files import Sources
from modelbuild.store.local import open_store
from modelbuild_rules.backends.tensorrt.backend import TENSORRT, Tensorrt

FACTS: Mapping[str, Any] = {"arch": "x86_64", "os": "linux", "compute_capabilities": ("8.6",), "gpu": 0}

Key = Callable[..., str]


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Key]:
    """Return the key of a partition's engine: key(partitioned, "p0", facts of a device)."""
    folder = tmp_path_factory.mktemp("keys")
    roots = {found.__name__: Path(str(found.__file__)).parent for found in (modelbuild, modelbuild_rules)}
    table = Tensorrt(type="tensorrt").model_dump(mode="json")
    with open_store(folder / "store") as store:
        keys = Resolver(StepCode(roots), folder, store.read_bytes, Sources(folder, store))

        def made(partitioned: Any, id: str = "p0", **facts: Any) -> str:
            action = Action(
                id=f"//:program#compile:{id}",
                owner="//:program",
                mnemonic="compile",
                step="modelbuild_rules.backends.tensorrt.steps.compile",
                outputs=(Output("compiled", "compiled", "tree"),),
                params={"attributes": TENSORRT.compile_attributes(table, {**FACTS, **facts})},
                tools=TENSORRT.compile_tools(table),
            )
            copy = shutil.copytree(partitioned.folder / "partitions" / id, folder / "copy", dirs_exist_ok=True)
            staged = StagedInput("partition", ".inputs/partition.0/p", None, store.put_output(copy))
            return key_of(material_of(keys.resolve(action, [staged])))

        yield made


class Small(nn.Module):
    """One partition; each of its parts can be another."""

    def __init__(self, slope: float = 0.1, bias: float = 0.5, swap: bool = False, width: int = 4) -> None:
        super().__init__()
        self.register_buffer("bias", torch.full((width,), bias))
        self.slope = slope
        self.swap = swap

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.leaky_relu(x + self.bias, self.slope)
        return x - y if self.swap else y - x


X = torch.ones(2, 4)
SPLIT = {"exclude_ops": ["aten.erf.default"]}
OTHERS: Mapping[str, tuple[nn.Module, torch.Tensor]] = {
    "argument": (Small(slope=0.2), X),
    "edge": (Small(swap=True), X),
    "constant": (Small(bias=0.25), X),
    "shape": (Small(), torch.ones(3, 4)),
    "dtype": (Small().half(), X.half()),
}


@pytest.mark.parametrize("difference", OTHERS)
def test_near_equals_never_share(partition: Callable[..., Any], key: Key, tmp_path: Path, difference: str) -> None:
    base = partition(Small(), (X,), tmp_path / "base")
    module, x = OTHERS[difference]
    other = partition(module, (x,), tmp_path / "other")
    assert [len(base.plan), len(other.plan)] == [1, 1]
    assert key(base) != key(other)


def test_the_same_model_is_the_same_engine(partition: Callable[..., Any], key: Key, tmp_path: Path) -> None:
    class Renamed(Small):
        """Equal but for names."""

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("other", self.bias.clone())
            del self.bias

        def forward(self, given: torch.Tensor) -> torch.Tensor:
            moved = given + self.other
            return torch.nn.functional.leaky_relu(moved, self.slope) - given

    one = partition(Small(), (X,), tmp_path / "one")
    other = partition(Renamed(), (X,), tmp_path / "other")
    assert key(one) == key(other)
    assert key(one, compute_capabilities=("8.9",)) != key(one)


def test_another_head_is_another_engine_and_none_else(partition: Callable[..., Any], key: Key, tmp_path: Path) -> None:
    class Headed(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.body = nn.Linear(4, 4)
            self.head = nn.Linear(4, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(torch.erf(torch.relu(self.body(x))))

    three, five = (partition(Headed(width), (X,), tmp_path / str(width), SPLIT) for width in (3, 5))
    assert [len(three.plan), len(five.plan)] == [2, 2]
    assert key(three, "p0") == key(five, "p0")
    assert len({key(three, "p0"), key(three, "p1"), key(five, "p1")}) == 3


def test_nodes_before_dynamic_sizes_are_in_no_key(partition: Callable[..., Any], key: Key, tmp_path: Path) -> None:
    """A size is read from a tensor that the partition takes anyway, not from its origin in the program."""

    class Behind(nn.Module):
        def __init__(self, front: bool) -> None:
            super().__init__()
            self.front = front

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.erf(torch.relu(x)) if self.front else x
            return torch.relu(x.reshape(1, x.shape[0], 4) * 2).reshape(x.shape[0], 4)

    batch = ({0: torch.export.Dim("batch", min=1, max=8)},)
    alone, behind = (
        partition(Behind(front), (X,), tmp_path / str(front), SPLIT, dynamic=batch) for front in (False, True)
    )
    assert [len(alone.plan), len(behind.plan)] == [1, 2]
    assert key(alone, "p0") == key(behind, "p1")


def test_dynamic_sizes_and_profiles_are_in_it(partition: Callable[..., Any], key: Key, tmp_path: Path) -> None:
    def made(name: str, high: int, **table: Any) -> str:
        batch = torch.export.Dim("batch", min=1, max=high)
        return key(partition(Small(), (X,), tmp_path / name, table, dynamic=({0: batch},)))

    profile = {"x": {"min": [1, 4], "opt": [2, 4], "max": [8, 4]}}
    assert len({made("8", 8), made("9", 9), made("profile", 8, optimization_profiles=[profile])}) == 3
