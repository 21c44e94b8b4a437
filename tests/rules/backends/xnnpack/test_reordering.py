"""Views, permutations and changes of layout that cancel each other are one view of XNNPACK."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.backends.xnnpack import xnnpack_preprocess
from torch import Tensor, nn

from tests.rules.backends.xnnpack.comparison import Form, compared, numbers
from tests.rules.program.conftest import _quantized


@pytest.fixture
def operators(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of XNNPACK's operators in compiled partitions, as "XNNStaticTranspose"."""
    found: list[str] = []
    serialize = xnnpack_preprocess.serialize_xnnpack_binary

    def recorded(graph: Any, *rest: Any) -> Any:
        found.extend(type(node.xnode_union).__name__ for node in graph.xnodes)
        return serialize(graph, *rest)

    monkeypatch.setattr(xnnpack_preprocess, "serialize_xnnpack_binary", recorded)
    return found


def parts() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    return {
        "wide": nn.Linear(6, 8),
        "narrow": nn.Linear(8, 6),
        "spatial": nn.Conv2d(8, 8, 3, padding=1, groups=8),
        "conv": nn.Conv2d(8, 8, 3, padding=1),
        "one": nn.Conv2d(3, 4, 1),
    }


def mixed(m: Any, x: Tensor) -> Tensor:
    """SegFormer's feed-forward net: tokens are an image between two linear layers."""
    image = m.wide(x).transpose(1, 2).reshape(2, 8, 4, 5)
    return m.narrow(m.spatial(image).flatten(2).transpose(1, 2))  # type: ignore[no-any-return]


def channels(m: Any, x: Tensor) -> Tensor:
    """ConvNeXt's block: linear layers of channels between two convolutions."""
    rows = m.wide(m.narrow(m.conv(m.wide(x)[:, None].reshape(2, 4, 5, 8).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)))
    return m.conv(rows.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)  # type: ignore[no-any-return]


def one_head(m: Any, x: Tensor) -> Tensor:
    heads = m.wide(x).view(2, 20, 1, 8).transpose(1, 2)
    return m.narrow((heads @ heads.transpose(-2, -1) @ heads).transpose(1, 2).reshape(2, 20, 8))  # type: ignore[no-any-return]


def with_results_between(m: Any, x: Tensor) -> tuple[Tensor, ...]:
    turned = m.wide(x).transpose(1, 2)
    image = turned.reshape(2, 8, 4, 5)
    flat = m.spatial(image).flatten(2)
    return turned + 1, image * 2, flat + 1, m.narrow(flat.transpose(1, 2))


def other_image(m: Any, x: Tensor) -> Tensor:
    """The image's rows are not rows of tokens."""
    return m.narrow(m.spatial(m.wide(x).reshape(2, 8, 4, 5)).flatten(2).transpose(1, 2))  # type: ignore[no-any-return]


@pytest.mark.parametrize(("form", "transpositions"), [(mixed, 0), (channels, 0), (one_head, 1), (other_image, 1)])
def test_transpositions(form: Callable[..., Any], transpositions: int, operators: list[str], tmp_path: Path) -> None:
    infinite = numbers(2, 20, 6)
    infinite[0, 3, 2], infinite[1, 7] = math.inf, math.nan
    made = compared(Form(form, **parts()), [(numbers(2, 20, 6),), (infinite,)], tmp_path)
    assert made.nodes("portable") == {}
    assert operators.count("XNNStaticTranspose") == transpositions


def test_results_between(tmp_path: Path) -> None:
    compared(Form(with_results_between, **parts()), [(numbers(2, 20, 6),)], tmp_path)


@pytest.mark.parametrize("dynamic", [False, True])
def test_quantized(dynamic: bool, tmp_path: Path) -> None:
    inputs = (numbers(2, 20, 6),)
    module = _quantized(Form(mixed, **parts()).eval(), inputs, dynamic)
    compared(torch.export.export(module, inputs), [inputs], tmp_path, 0.2)


def test_sizes_that_differ_between_calls(tmp_path: Path) -> None:
    def form(m: Any, x: Tensor) -> Any:
        image = m.wide(x).transpose(1, 2).reshape(x.shape[0], 8, 4, 5)
        return m.narrow(m.spatial(image).flatten(2).transpose(1, 2))

    module = Form(form, **parts()).eval().requires_grad_(False)
    sizes = {"inputs": ({0: torch.export.Dim("batch", min=1, max=4)},)}
    program = torch.export.export(module, (numbers(2, 20, 6),), dynamic_shapes=sizes)
    compared(program, [(numbers(count, 20, 6),) for count in (2, 1, 4)], tmp_path)


def moves(drawn: random.Random, shape: tuple[int, ...]) -> Iterator[Callable[[Tensor], Tensor]]:
    """Yield functions that permute or view a tensor, so that it has four dimensions in the end."""
    for _ in range(drawn.randint(1, 5)):
        if drawn.random() < 0.5:
            order = drawn.sample(range(len(shape)), len(shape))
            shape = tuple(shape[axis] for axis in order)
            yield lambda x, order=order: x.permute(order)
        else:
            shape = viewed(drawn, math.prod(shape))
            yield lambda x, shape=shape: x.reshape(shape)
    if len(shape) != 4:
        last = viewed(drawn, math.prod(shape), 4)
        yield lambda x: x.reshape(last)


def viewed(drawn: random.Random, count: int, rank: int = 0) -> tuple[int, ...]:
    sizes = [1] * (rank or drawn.randint(2, 4))
    for prime in (2, 2, 2, 2, 2, 3):
        sizes[drawn.randrange(len(sizes))] *= prime
    assert math.prod(sizes) == count
    return tuple(sizes)


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(more, marks=pytest.mark.exhaustive) for more in range(2, 20))]
)
def test_any_moves_between_convolutions(seed: int, tmp_path: Path) -> None:
    """Some keep all values in their places, most do not."""
    drawn = random.Random(seed)
    chains = [list(moves(drawn, (2, 4, 3, 4))) for _ in range(12)]

    def form(m: Any, x: Tensor) -> list[Tensor]:
        image, found = m.one(x), []
        for chain in chains:
            made = image
            for move in chain:
                made = move(made)
            found += [made + 1, nn.functional.conv2d(made, torch.ones(2, made.shape[1], 1, 1))]
        return found

    compared(Form(form, **parts()), [(numbers(2, 3, 3, 4),)], tmp_path)
