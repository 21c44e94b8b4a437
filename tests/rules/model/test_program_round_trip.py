"""Programs written and read again compute the same, are the same bytes again, and differ when anything does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from modelbuild_rules.model.steps.exported.program import canonicalize, load_program, save_program


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any], *parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(parts)

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*self.parts, *inputs)


class Counter(nn.Module):
    """Buffers that change, one of them not saved with the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sum", torch.tensor([1.0, 2.0]))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.sum.add_(x)
        self.calls.add_(1)
        return self.sum * self.calls


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 4)
        self.out = nn.Linear(4, 7, bias=False)
        self.out.weight = self.table.weight

    def forward(self, i: Tensor) -> Tensor:
        return self.out(self.table(i))


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3))


def convolve(layer: nn.Module, norm: nn.Module, x: Tensor) -> Tensor:
    return norm(layer(x))


def branch(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda t: t.sin() * 2, lambda t: t.cos() + 1, (x,))


def attention(norm: nn.Module, attend: nn.Module, x: Tensor) -> Tensor:
    y = norm(x)
    return attend(y, y, y, need_weights=False)[0]


def types(x: Tensor) -> tuple[Tensor, ...]:
    kinds = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16)
    return (*(x.to(kind) for kind in kinds), x.double() * 1e-300, x + float("inf"))


Made = tuple[nn.Module, tuple[Tensor, ...], Any]
N = Dim("n", min=1, max=9)
MODELS: Mapping[str, Callable[[], Made]] = {
    "conv": lambda: (
        Function(lambda c, b, x: b(c(x)), nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)),
        (draw(1, 3, 6, 6),),
        None,
    ),
    "lstm": lambda: (Function(lambda lstm, x: lstm(x), nn.LSTM(3, 4, batch_first=True)), (draw(1, 5, 3),), None),
    "attention": lambda: (
        Function(attention, nn.LayerNorm(8), nn.MultiheadAttention(8, 2, batch_first=True)),
        (draw(2, 5, 8),),
        None,
    ),
    "cond": lambda: (Function(branch), (draw(3),), None),
    "dynamic": lambda: (
        Function(lambda x, y: (torch.cat([x, y]).reshape(-1, 2), x.shape[0] * 2)),
        (draw(3, 2), draw(3, 2)),
        (({0: N}, {0: N}),),
    ),
    "unbacked": lambda: (Function(lambda x: (torch.nonzero(x > 0), x[x > 0] * 2)), (draw(4, 3),), None),
    "counter": lambda: (Counter(), (draw(2),), None),
    "tied": lambda: (Tied(), (torch.tensor([1, 2]),), None),
    "types": lambda: (Function(types), (draw(2, 3) * 3,), None),
    "half weights": lambda: (Function(lambda a, x: a(x), nn.Linear(3, 2).bfloat16()), (draw(1, 3).bfloat16(),), None),
    "lifted": lambda: (Function(lambda x: x + torch.tensor([1.0, 2.0, 3.0])), (draw(3),), None),
    "keywords": lambda: (
        Function(lambda x: (F.gelu(x, approximate="tanh"), torch.full_like(x, 2, dtype=torch.int32), x.clamp(min=0.1))),
        (draw(3),),
        None,
    ),
    "slices": lambda: (Function(lambda x: {"a": x[:, 1:3], "b": [x[..., None], x[::2]]}), (draw(3, 4),), None),
    "changed input": lambda: (Function(lambda x: x.mul_(2) + 1), (draw(3),), None),
    "laid out": lambda: (
        Function(lambda c, x: c(x), nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)),
        (draw(1, 3, 4, 4),),
        None,
    ),
}


def export(made: Made) -> ExportedProgram:
    module, inputs, shapes = made
    return torch.export.export(module.eval().requires_grad_(False), inputs, dynamic_shapes=shapes)


def model(name: str) -> Made:
    torch.manual_seed(0)
    return MODELS[name]()


def save(program: ExportedProgram, folder: Path) -> Path:
    for part in ("program", "weights"):
        (folder / part).mkdir(parents=True)
    save_program(program, folder / "program", folder / "weights")
    return folder


def load(folder: Path) -> ExportedProgram:
    """Read a program; it is an error if that unpickles."""
    refused = AssertionError("a pickle was read")
    with ExitStack() as stack:
        for name in ("pickle.load", "pickle.loads", "torch.load"):
            stack.enter_context(patch(name, side_effect=refused))
        return load_program(folder / "program", folder / "weights")


def written(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("name", MODELS)
class TestRoundTrip:
    def test_computes_the_same(self, name: str, tmp_path: Path) -> None:
        made = model(name)
        _, inputs, _ = made
        program = export(made)
        read = load(save(program, tmp_path / "a"))
        modules = [each.module(check_guards=False) for each in (program, read)]
        for _ in range(2):
            given = [[x.clone() for x in inputs] for _ in modules]
            one, other = (module(*own) for module, own in zip(modules, given, strict=True))
            torch.testing.assert_close(other, one, rtol=0, atol=0, equal_nan=True)
            torch.testing.assert_close(given[1], given[0], rtol=0, atol=0)

    def test_is_the_same_bytes(self, name: str, tmp_path: Path) -> None:
        first = save(export(model(name)), tmp_path / "first")
        again = save(export(model(name)), tmp_path / "again")
        read = save(load(first), tmp_path / "read")
        assert written(first) == written(again) == written(read)

    def test_canonical_names_are_stable(self, name: str, tmp_path: Path) -> None:
        made = model(name)
        program = canonicalize(export(made))
        first, again = save(program, tmp_path / "first"), save(canonicalize(program), tmp_path / "again")
        assert written(first) == written(again)
        modules = [each.module(check_guards=False) for each in (export(made), load(first))]
        expected, result = (module(*[x.clone() for x in made[1]]) for module in modules)
        torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)


def test_sizes_within_the_bounds(tmp_path: Path) -> None:
    program = load(save(export(model("dynamic")), tmp_path / "a"))
    for size in (1, 9):
        x, y = draw(size, 2), draw(size, 2)
        result, twice = program.module()(x, y)
        assert torch.equal(result, torch.cat([x, y]))
        assert twice == 2 * size
    with pytest.raises(RuntimeError, match="to be <= 9, but got 10"):
        program.module()(draw(10, 2), draw(10, 2))


def test_a_shared_weight_is_one_file_and_stays_shared(tmp_path: Path) -> None:
    folder = save(export(model("tied")), tmp_path / "a")
    assert [p.name for p in (folder / "weights").iterdir()] == ["0"]
    values = list(load(folder).state_dict.values())
    assert all(value.data_ptr() == values[0].data_ptr() for value in values)


def test_no_file_is_changed_by_using_its_weights(tmp_path: Path) -> None:
    folder = save(export(model("counter")), tmp_path / "a")
    before = written(folder)
    load(folder).module()(draw(2))
    assert written(folder) == before


X = draw(2, 3, 4)
TURNED = X.transpose(0, 1).contiguous().transpose(0, 1)
PAIRS: Mapping[str, tuple[Made, Made]] = {
    "an argument": ((Function(lambda x: x.sum(1)), (X,), None), (Function(lambda x: x.sum(2)), (X,), None)),
    "a scalar": ((Function(lambda x: x + 1), (X,), None), (Function(lambda x: x + 2), (X,), None)),
    "an integer and a float": ((Function(lambda x: x * 2), (X,), None), (Function(lambda x: x * 2.0), (X,), None)),
    "a last bit": ((Function(lambda x: x + 0.1), (X,), None), (Function(lambda x: x + 0.1000000000000001), (X,), None)),
    "a sign of zero": ((Function(lambda x: x * 0.0), (X,), None), (Function(lambda x: x * -0.0), (X,), None)),
    "a keyword": (
        (Function(lambda x: F.gelu(x, approximate="tanh")), (X,), None),
        (Function(lambda x: F.gelu(x)), (X,), None),
    ),
    "an edge": (
        (Function(lambda x: (a := x.sin(), b := x.cos(), a - b)[2]), (X,), None),
        (Function(lambda x: (a := x.sin(), b := x.cos(), b - a)[2]), (X,), None),
    ),
    "an operator": ((Function(torch.sin), (X,), None), (Function(torch.cos), (X,), None)),
    "a shape": ((Function(torch.sin), (X,), None), (Function(torch.sin), (X[:1],), None)),
    "a dtype": ((Function(torch.sin), (X,), None), (Function(torch.sin), (X.double(),), None)),
    "a layout": ((Function(torch.sin), (X,), None), (Function(torch.sin), (TURNED,), None)),
    "an order of outputs": (
        (Function(lambda x: (x.sin(), x.cos())), (X,), None),
        (Function(lambda x: (lambda s, c: (c, s))(x.sin(), x.cos())), (X,), None),
    ),
    "names of outputs": (
        (Function(lambda x: {"a": x.sin()}), (X,), None),
        (Function(lambda x: {"b": x.sin()}), (X,), None),
    ),
    "a constant": (
        (Function(lambda x: x + torch.tensor([1.0])), (X,), None),
        (Function(lambda x: x + torch.tensor([2.0])), (X,), None),
    ),
    "a constant's dtype": (
        (Function(lambda x: x + torch.tensor([1])), (X,), None),
        (Function(lambda x: x + torch.tensor([1], dtype=torch.int32)), (X,), None),
    ),
    "bounds": (
        (Function(torch.sin), (X,), (({0: Dim("n", min=1, max=8)},),)),
        (Function(torch.sin), (X,), (({0: Dim("n", min=1, max=9)},),)),
    ),
    "a dimension that is dynamic": (
        (Function(torch.sin), (X,), (({0: Dim("n", min=1, max=8)},),)),
        (Function(torch.sin), (X,), (({1: Dim("n", min=1, max=8)},),)),
    ),
    "inside a branch": (
        (Function(branch), (X,), None),
        (Function(lambda x: torch.cond(x.sum() > 0, lambda t: t.sin() * 3, lambda t: t.cos() + 1, (x,))), (X,), None),
    ),
}


@pytest.mark.parametrize("canonical", [False, True], ids=["named", "canonical"])
@pytest.mark.parametrize("name", PAIRS)
def test_programs_that_differ_are_other_bytes(name: str, canonical: bool, tmp_path: Path) -> None:
    programs = [export(made) for made in PAIRS[name]]
    if canonical:
        programs = [canonicalize(program) for program in programs]
    one, other = (written(save(program, tmp_path / str(i))) for i, program in enumerate(programs))
    assert one != other
