"""Nodes that depend on no input and no weight become constants."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modelbuild_rules.program.steps.lowering.rewrites.constants import fold_constants, has_constant_nodes


class Grid(nn.Module):
    """Adds a grid that is changed in place, a sum over a tuple of results, and a table."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([3.0]))

    def forward(self, x: Tensor) -> Tensor:
        rows, columns = torch.meshgrid(torch.arange(4) * 8, torch.arange(4) * 8 + 4, indexing="ij")
        grid = torch.stack([rows, columns])
        grid[:, 0] += 1
        values, _ = torch.ones(4).topk(2)
        return x * torch.tensor([1.0, 2.0]).exp().view(2, 1, 1) * self.scale.exp() + grid + values.sum()


def operators(module: nn.Module, *inputs: Tensor, doubles: bool = False) -> list[str]:
    """Return the operators of a module's folded program, whose results must be the module's."""
    program = torch.export.export(module.eval(), inputs)
    assert has_constant_nodes(program, doubles)
    folded = fold_constants(program, doubles)
    assert not has_constant_nodes(folded, doubles)
    for seed in (0, 1):
        given = [torch.randn_like(each) for each in inputs]
        torch.manual_seed(seed)
        expected = module(*given)
        torch.manual_seed(seed)
        torch.testing.assert_close(folded.module()(*given), expected, rtol=0, atol=0)
    return [node.target._opname for node in folded.graph.nodes if node.op == "call_function"]


def test_grids_and_tables_are_folded_and_weights_are_not() -> None:
    assert operators(Grid(), torch.ones(2, 4, 4)) == ["mul", "exp", "mul", "add", "add"]


class Masked(nn.Module):
    """Computes masks of the types and sizes of tensors that are no constants."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        mask = x.new_zeros(3, dtype=torch.int64)
        mask[1:] = 2
        return x * mask.exp(), y + torch.ones_like(y) * torch.full_like(y, 4), x + x.new_full((3,), 2) * x.new_ones(3)


def test_tensors_of_the_type_of_another_are_folded() -> None:
    assert operators(Masked(), torch.ones(3).double(), torch.ones(2, 3).t()) == ["mul", "add", "add"]


class Waves(nn.Module):
    """Adds waves whose phases are computed in float64, and a ramp that is not."""

    def forward(self, x: Tensor) -> Tensor:
        phases = torch.arange(4, dtype=torch.float64) / 7
        return x + torch.arange(4, dtype=torch.float32) * 2 + torch.ops.aten._to_copy(phases.sin(), dtype=x.dtype) * 3


def test_of_a_stack_that_generates_code_what_float64_decides_is_folded() -> None:
    assert operators(Waves(), torch.ones(4)) == ["add", "add"]
    assert operators(Waves(), torch.ones(4), doubles=True) == ["arange", "mul", "add", "add"]
    program = torch.export.export(Drawn(), (torch.ones(3),))
    assert not has_constant_nodes(program, doubles=True)


class Drawn(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand(3) * torch.arange(3)


def test_random_numbers_are_drawn_in_each_call() -> None:
    assert operators(Drawn(), torch.ones(3)) == ["rand", "mul", "add"]


class Large(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.arange(1024).view(1024, 1).expand(1024, 1024)


def test_only_the_small_part_of_a_large_constant_is_stored() -> None:
    assert operators(Large(), torch.ones(1024, 1024)) == ["expand", "add"]


class Equal(nn.Module):
    """Has two tensors of equal numbers, and two that only compare as equal."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([x * torch.zeros(3), x / torch.zeros(3), x / -torch.zeros(3)])


def test_equal_values_are_stored_once_and_negative_zero_is_another() -> None:
    assert operators(Equal(), torch.ones(3)) == ["mul", "div", "div", "stack"]
    program = fold_constants(torch.export.export(Equal(), (torch.ones(3),)))
    assert len(program.graph_signature.inputs_to_lifted_tensor_constants) == 2


class Same(nn.Module):
    """Has names that constants of the same values would get."""

    def __init__(self) -> None:
        super().__init__()
        self.constant_mul_0 = nn.Parameter(torch.tensor([5.0]))

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.arange(3) * 2 + self.constant_mul_0


def test_names_of_the_program_are_not_taken() -> None:
    assert operators(Same(), torch.ones(3)) == ["add", "add"]


class Results(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, torch.arange(3)


@pytest.mark.parametrize("module", [Results(), nn.Identity()])
def test_results_stay(module: nn.Module) -> None:
    assert not has_constant_nodes(torch.export.export(module, (torch.ones(3),)))


class Quantized(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        table = torch.ops.quantized_decomposed.quantize_per_tensor.default(
            torch.arange(3) * 1.5, 0.1, 0, -128, 127, torch.int8
        )
        return x + torch.ops.quantized_decomposed.dequantize_per_tensor.default(table, 0.1, 0, -128, 127, torch.int8)


def test_quantization_of_constants_stays() -> None:
    import torch.ao.quantization.fx._decomposed

    assert operators(Quantized(), torch.ones(3)) == ["quantize_per_tensor", "dequantize_per_tensor", "add"]


class Anchors(nn.Module):
    """Fills columns with strides, as a YOLO does, takes as many rows as a table says, and checks a table that it
    writes."""

    def __init__(self) -> None:
        super().__init__()
        self.strides = torch.tensor([8.0, 16.0])
        self.rows = torch.tensor([2, 3])

    def forward(self, x: Tensor) -> Tensor:
        columns = [torch.full((2, 1), stride) for stride in self.strides]  # type: ignore[arg-type]
        count = (self.rows * 2).prod().item() // 12
        torch._check(count >= 0)
        torch._check(count <= x.shape[0])
        sizes = torch.empty(2, dtype=torch.int64)
        sizes[0], sizes[1] = 1, 2
        torch._check((sizes > 0).all().item())  # type: ignore[arg-type]
        return x[:count] * torch.cat(columns, 1) + sizes


@pytest.mark.parametrize("doubles", [False, True])
def test_numbers_read_from_constants_are_part_of_the_program(doubles: bool) -> None:
    found = operators(Anchors(), torch.ones(4, 2), doubles=doubles)
    assert "_local_scalar_dense" not in found
    assert "item" not in found
    if not doubles:
        assert found == ["slice", "mul", "add"]


class Read(nn.Module):
    """Reads a number from its input and from a weight, and returns another."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(3.0))

    def forward(self, x: Tensor) -> tuple[Tensor, Any]:
        return x * x[0].item() * self.scale.item(), (torch.arange(3) * 2).sum().item()


def test_other_numbers_stay() -> None:
    program = torch.export.export(Read(), (torch.ones(3),))
    operators = [str(node.target) for node in fold_constants(program).graph.nodes]
    assert operators.count("aten.item.default") == 3
