"""The export step: the function in `prepare`, and random numbers drawn on the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from modelbuild_rules.model.call import parse_call

LAZY = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.LazyLinear(4)
        self.norm = nn.LazyBatchNorm1d()

    def forward(self, x, *, scale):
        return self.norm(self.linear(x)) * scale

def run_once(module, *args, **kwargs):
    module(*args, **kwargs)

def nothing(module, *args, **kwargs):
    pass

def other(module, *args, **kwargs):
    return nn.Sequential(nn.Tanh())

def wrong(module, *args, **kwargs):
    return 7
"""
INPUT = {"name": "x", "shape": [2, 3], "dtype": "float32", "range": None}
CALL = parse_call("x, scale=2.0", ["x"])


def test_lazy_parameters_get_their_shapes(export: Callable[..., Any], tmp_path: Path) -> None:
    weights = {"linear.weight": torch.ones(4, 3), "linear.bias": torch.zeros(4), "norm.weight": torch.ones(4)}
    weights |= {"norm.bias": torch.zeros(4), "norm.running_mean": torch.zeros(4), "norm.running_var": torch.ones(4)}
    torch.save({**weights, "norm.num_batches_tracked": torch.tensor(0)}, tmp_path / "w.pt")
    found = export(LAZY, files={"weights.": (tmp_path / "w.pt",)}, call=CALL, prepare="m/net.py:run_once")
    (x,) = found.examples()
    torch.testing.assert_close(found.program().module()(x), 2 * x.sum(1, keepdim=True).expand(2, 4), rtol=1e-4, atol=0)


def test_a_dry_run_does_not_train(export: Callable[..., Any]) -> None:
    state = export(LAZY, call=CALL, prepare="m/net.py:run_once").program().state_dict
    assert torch.equal(state["norm.running_mean"], torch.zeros(4))


def test_it_may_return_another_module(export: Callable[..., Any]) -> None:
    source = LAZY.replace("def other(module, *args, **kwargs)", "def other(module, x)").replace("Lazy", "")
    source = source.replace("Linear(4)", "Linear(3, 4)").replace("BatchNorm1d()", "BatchNorm1d(4)")
    source = source.replace("x, *, scale", "x").replace(" * scale", "")
    found = export(source, prepare="m/net.py:other")
    (x,) = found.examples()
    assert torch.equal(found.program().module()(x), torch.tanh(x))


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (
            None,
            "has no shape until the module runs; expected the attribute 'prepare' with a function that runs it once",
        ),
        ("m/net.py:nothing", "has no shape until the module runs; expected the attribute 'prepare' with a function"),
        ("m/net.py:wrong", "m/net.py:wrong returns a int; expected None or a torch.nn.Module"),
        ("m/net.py:missing", "m/net.py has no 'missing'"),
    ],
)
def test_invalid_preparations(refusal: Callable[..., str], prepare: str | None, message: str) -> None:
    assert message in refusal(LAZY, call=CALL, prepare=prepare)


@pytest.mark.parametrize("drawn", ["float(torch.rand(()))", "float(numpy.random.rand())", "random.random()"])
def test_the_seed_decides_what_a_preparation_draws(export: Callable[..., Any], drawn: str) -> None:
    source = f"""
import random
import numpy

class Net(nn.Module):
    def forward(self, x):
        return x + self.drawn

def prepare(module, x):
    module.drawn = {drawn}
"""
    one, same, other = (
        export(source, seed=seed, prepare="m/net.py:prepare").bytes("calls", "examples") for seed in (3, 3, 4)
    )
    assert one == same != other


@pytest.mark.parametrize("drawn", ["float(numpy.random.rand())", "random.random()"])
def test_the_seed_decides_what_forward_draws_however_much_was_drawn_before(
    export: Callable[..., Any], drawn: str
) -> None:
    source = f"""
import random
import numpy

class Net(nn.Module):
    def __init__(self, before=0):
        super().__init__()
        for _ in range(before):
            numpy.random.rand(), random.random()

    def forward(self, x):
        return x + {drawn}
"""
    one, same, other = (
        export(source, seed=seed, kwargs={"before": before}).bytes("calls", "examples")
        for seed, before in ((3, 0), (3, 5), (4, 0))
    )
    assert one == same != other
