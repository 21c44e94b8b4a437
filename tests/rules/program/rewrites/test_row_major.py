"""Programs with tensors in torch.channels_last order run on ExecuTorch's kernels, with eager PyTorch's values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from executorch.exir import to_edge
from executorch.extension.pybindings._C import _load_for_executorch_from_buffer
from torch import Tensor, nn
from torch.export import Dim
from torch.utils import _pytree as pytree

from modelbuild_rules.program.steps.lowering.rewrites.row_major import ROW_MAJOR
from tests.portable_program import build_program

LAST, LAST_3D = torch.channels_last, torch.channels_last_3d
OTHER = torch.arange(288.0).view(2, 4, 6, 6) / 100

FORMS: Mapping[str, Callable[[Tensor], Any]] = {
    "slice": lambda x: (x[:, 1:3], x[:, :, ::2, 1:]),
    "select": lambda x: (x[:, 1], x[0], x.unbind(1)[0]),
    "squeeze": lambda x: (x[:, :1].squeeze(1), x.unsqueeze(0)),
    "permute": lambda x: (x.permute(0, 2, 3, 1), x.permute(3, 1, 0, 2), x.transpose(1, 2), x.mT.contiguous()),
    "split": lambda x: (*x.split(2, 1), *x.chunk(2, 2)),
    "cat": lambda x: (torch.cat([x, x * 2], 1), torch.cat([x, OTHER], 1), torch.stack([x, x])),
    "reshape": lambda x: (x.reshape(2, -1), x.flatten(2), x.unflatten(1, (2, 2)), x.permute(0, 2, 3, 1).flatten(1, 2)),
    "mean": lambda x: (x.mean((2, 3)), x.mean(1), x.sum(1), x.amax((2, 3)), x.argmax(1), x.var((2, 3)), x.cumsum(1)),
    "scaled by its mean": lambda x: x * x.mean((2, 3), keepdim=True).sigmoid(),
    "pooling": lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 3)),
    "upsample": lambda x: tuple(F.interpolate(x, scale_factor=2, mode=m) for m in ("nearest", "bilinear", "bicubic")),
    "shuffle": lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2), F.channel_shuffle(x, 2)),
    "softmax": lambda x: (x.softmax(1), x.log_softmax(1)),
    "mask": lambda x: (x[x > 0], x.masked_fill(x > 0, 0.0), torch.where(x > OTHER, x, OTHER), x.nonzero()),
    "index": lambda x: (x[:, [0, 2]], x.index_select(1, torch.tensor([1, 0])), x.gather(1, (OTHER > 1).long())),
    "write": lambda x: (x.index_put((torch.tensor([0]),), OTHER[0]), torch.slice_scatter(x, OTHER[:, :2], 1, 0, 2)),
    "arithmetic": lambda x: (
        x + OTHER,
        x + OTHER[0, :, :1, :1],
        x + OTHER[0, 0, 0],
        torch.minimum(OTHER, x),
        x == OTHER,
    ),
    "like": lambda x: (torch.zeros_like(x), torch.full_like(x, 2.0), x.to(torch.float16), x.clone(), x.contiguous()),
    "pad": lambda x: (F.pad(x, (1, 1)), F.pad(x, (1, 1, 1, 1), mode="reflect"), x.roll(1, 2), x.flip(3)),
    "repeat": lambda x: (
        x.repeat(1, 2, 1, 1),
        x[:, :1].expand(2, 3, 6, 6),
        x.repeat_interleave(2, 1),
        x.tile(1, 1, 2, 2),
    ),
    "norm": lambda x: (F.layer_norm(x, (6,)), F.group_norm(x, 2), F.instance_norm(x), F.normalize(x, dim=1)),
    "product": lambda x: (x @ x, x.flatten(2) @ x.flatten(2).mT, torch.einsum("bchw,bdhw->bcd", x, x)),
    "cond": lambda x: torch.cond(x.sum() > 0, lambda x: (x[:, 1:] * 2,), lambda x: (x[:, :3] + 1,), (x,)),
    "itself": lambda x: x,
}
SAMPLE = ["slice", "cat", "mask", "cond", "itself"]


class Copied(nn.Module):
    """Copies its input to channels-last order."""

    def __init__(self, form: Callable[[Tensor], Any], kind: torch.memory_format = LAST) -> None:
        super().__init__()
        self.form = form
        self.kind = kind

    def forward(self, x: Tensor) -> Any:
        return self.form(x.to(memory_format=self.kind))


class Convolved(nn.Module):
    """A convolution whose weights, and so its results, are in channels-last order, and a buffer."""

    def __init__(self, form: Callable[[Tensor], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Conv2d(4, 4, 3, padding=1).to(memory_format=LAST)
        self.register_buffer("added", OTHER.contiguous(memory_format=LAST))
        self.form = form

    def forward(self, x: Tensor) -> Any:
        return self.form(self.layer(x) + self.added)


def pictures(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def check(lower: Callable[..., Any], execute: Callable[..., Any], tmp_path: Path) -> Callable[..., None]:
    """Lower a module for a stack, and compare its results with eager mode's, for an example and other inputs."""

    def run(module: nn.Module, x: Tensor, *others: Tensor, stack: str = "portable", **options: Any) -> None:
        exported = torch.export.export(module.eval(), (x,), **options)
        made = (build_program if stack == "portable" else lower)(exported, tmp_path)
        for given in (x, *others):
            expected = pytree.tree_leaves(module(given))
            for one, other in zip(execute(made.pte, [given]), expected, strict=True):
                assert one.is_contiguous()
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)

    return run


CASES = [
    pytest.param(kind, name, marks=() if name in SAMPLE else pytest.mark.exhaustive, id=f"{kind.__name__}-{name}")
    for kind in (Copied, Convolved)
    for name in FORMS
]


@pytest.mark.sampled
@pytest.mark.parametrize("stack", ["portable", "xnnpack"])
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_values_are_those_of_eager_mode(
    kind: type[nn.Module], name: str, stack: str, check: Callable[..., None]
) -> None:
    check(kind(FORMS[name]), pictures(2, 4, 6, 6), stack=stack)


def test_sizes_that_are_known_when_it_runs(check: Callable[..., None]) -> None:
    def form(x: Tensor) -> tuple[Tensor, ...]:
        return x[:, 1:], torch.cat([x, x + x[:, :1, :1, :1]], 1), x.permute(0, 2, 3, 1).flatten(1, 2)

    sizes = {0: Dim("n", min=1, max=4), 2: Dim("h", min=2, max=9), 3: Dim("w", min=2, max=9)}
    check(Copied(form), pictures(2, 4, 6, 5), pictures(1, 4, 9, 2), dynamic_shapes=(sizes,))


def test_dimensions_of_one_element(check: Callable[..., None]) -> None:
    check(Copied(lambda x: (x[:, 1:], torch.cat([x, x.new_ones(1, 4, 1, 1)], 1))), pictures(1, 4, 1, 1))


def test_volumes(check: Callable[..., None]) -> None:
    check(Copied(lambda x: (x[:, 1:], x.mean(1), x.softmax(1)), LAST_3D), pictures(1, 3, 4, 5, 6))


def test_results_of_convolutions_of_volumes(check: Callable[..., None]) -> None:
    layer = nn.Conv3d(2, 3, 3).to(memory_format=LAST_3D)
    net = nn.Sequential(layer, Copied(lambda x: (x.to(torch.float16)[:, 1:], x.clone()), LAST_3D))
    check(net, pictures(1, 2, 4, 5, 6), stack="xnnpack")


def test_a_copy_that_only_an_output_is(check: Callable[..., None]) -> None:
    check(Copied(lambda x: x.cumsum(1).to(memory_format=LAST)), pictures(2, 4, 6, 6), stack="xnnpack")


def test_programs_in_row_major_order_are_left_alone() -> None:
    program = to_edge(torch.export.export(nn.Conv2d(4, 4, 3), (pictures(2, 4, 6, 6),))).exported_program()
    graph, constants = ROW_MAJOR
    assert not graph(program.graph_module).modified
    assert not constants(program).modified


def test_still_wrong_without_the_passes() -> None:
    """If this fails, ExecuTorch's kernels are correct, and the passes can be removed."""
    x = pictures(2, 4, 6, 6)

    def run(form: Callable[[Tensor], Tensor]) -> Tensor:
        program = to_edge(torch.export.export(Copied(form), (x,))).to_executorch()
        return _load_for_executorch_from_buffer(program.buffer).forward([x])[0]

    with pytest.raises(RuntimeError, match="0x12"):
        run(lambda x: x[:, 1])
    assert not torch.allclose(run(lambda x: x.flip(3)), x.flip(3))
