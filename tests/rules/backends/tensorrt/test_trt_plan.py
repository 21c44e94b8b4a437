"""The tables of bindings in an engine: recognized as the installed TensorRT-RTX writes them, and put in order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import nn

from modelbuild_rules.backend_api.steps.partition_files import read_partition
from modelbuild_rules.backends.tensorrt.steps.engine.engine import build
from modelbuild_rules.backends.tensorrt.steps.engine.plan import order_bindings


class Branches(nn.Module):
    """Three results of unlike shape and type, and two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, indices = torch.topk(self.layer(x + y), 2)
        return torch.sigmoid(values), indices, torch.relu(x).sum(1)


@pytest.fixture(scope="module")
def engine(partition: Callable[..., Any], compiled: Mapping[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = partition(Branches(), (torch.rand(2, 8), torch.rand(2, 8)), tmp_path_factory.mktemp("plan") / "made")
    return build(read_partition(made.folder / "partitions/p0")[0], compiled)


def mentions(plan: bytes | bytearray) -> str:
    """Return the bindings that an engine names, in order: a, b for the inputs, 0, 1, 2 for the results."""
    found = re.findall(rb"arg_[01]|output[012]", plan)
    return "".join({"arg_0": "a", "arg_1": "b"}.get(name.decode(), name.decode()[-1]) for name in found)


def test_both_tables_of_a_real_engine_are_found(engine: Any) -> None:
    """In another order the engine differs only in these tables, and sorting them back restores it."""
    assert (engine.inputs, engine.outputs) == (("arg_0", "arg_1"), ("output0", "output1", "output2"))
    plan = bytes(engine.plan)
    other = bytearray(plan)
    order_bindings(other, (*engine.outputs[::-1], *engine.inputs[::-1]))
    assert mentions(other).startswith("210ba")
    assert mentions(other).endswith("221100")
    assert mentions(other)[5:-6] == mentions(plan)[5:-6]
    assert sorted(other) == sorted(plan)
    order_bindings(other, (*engine.inputs, *engine.outputs))
    assert other == plan


def test_an_engine_comes_in_order(engine: Any) -> None:
    assert mentions(bytes(engine.plan)).startswith("ab012")
    assert mentions(bytes(engine.plan)).endswith("001122")


def test_engines_without_these_tables_are_unchanged(engine: Any) -> None:
    plan = bytes(engine.plan)
    for given, names in ((b"output1 output0" * 9, engine.outputs), (plan, ("none", "of these")), (plan, ("output1",))):
        left = bytearray(given)
        order_bindings(left, names)
        assert left == given
