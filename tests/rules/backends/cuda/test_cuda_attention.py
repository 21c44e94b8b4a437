"""Attention becomes one kernel, whose inputs and output are not copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import export

from modelbuild_rules.backend_api.steps.partition_files import read_partition
from modelbuild_rules.backends.cuda.steps.generate.attention import fuse_attention
from modelbuild_rules.backends.cuda.steps.generate.lowerings.attention import block_of, tile_of
from modelbuild_rules.backends.cuda.steps.kernels.device import GPUS

F = nn.functional


@pytest.fixture
def fused(lowering: Any) -> Callable[..., list[Any]]:
    """Lower a module to one partition, fuse its attention for capability 9.0, and return the nodes."""

    def nodes(module: nn.Module, *given: Tensor) -> list[Any]:
        lowered = lowering(export(module.eval(), given), [lowering.cuda()])
        (part,) = lowered.plan
        program, _ = read_partition(lowered.folder / "partitions" / part["id"])
        fuse_attention(program, GPUS[90])
        program.graph_module.graph.lint()
        program.validate()
        return [node for node in program.graph.nodes if node.op == "call_function"]

    return nodes


def names(nodes: list[Any]) -> list[str]:
    targets = [node.target for node in nodes]
    plain = [each if isinstance(each, torch._ops.OpOverload) else getattr(each, "_op", each) for each in targets]
    return [str(each).partition(".")[2] for each in plain]


def result(node: Any) -> Tensor:
    """Return a tensor of a node's shape; that of a view has the strides that it has in a program."""
    if not isinstance(node.target, torch._ops.OpOverload) or node.op != "call_function":
        return torch.empty(node.meta["val"].shape)
    given: Tensor = node.target(result(node.args[0]), *node.args[1:])
    return given


class Layer(nn.Module):
    """Attention as torchvision's encoders have it: a contiguous copy of the three inputs, then views of it."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(32, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.attend(x, x, x, need_weights=False)[0]
        return result


@pytest.mark.parametrize("batch", [1, 3])
def test_inputs_and_output_are_views(batch: int, fused: Any) -> None:
    made = fused(Layer(), torch.randn(batch, 9, 32))
    found = names(made)
    place = found.index("attention.default")
    # Before the product, the layer's input is copied, so that its rows are consecutive.
    before = found[found.index("addmm.default") : place]
    assert not [name for name in before if "clone" in name or name == "select_copy.int"]
    assert found.count("select.int") == 3
    assert found[place + 1] == "permute.default"
    # Each is a view of the product's output, whose rows have 96 elements.
    for each in made[place].args[:3]:
        assert result(each).stride()[1:] == (16, 96 * batch, 1)


class Given(nn.Module):
    """Attention with any arguments."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return F.scaled_dot_product_attention(q, k, v, **self.options), q.clone()


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ([torch.randn(1, 2, 4, 8)] * 3, {}),
        ([torch.randn(1, 4, 5, 8), *[torch.randn(1, 2, 3, 8)] * 2], {"enable_gqa": True}),
        ([torch.randn(1, 2, 4, 8)] * 3, {"is_causal": True, "scale": 2.0}),
    ],
)
def test_fused_operators(given: list[Tensor], options: dict[str, Any], fused: Any) -> None:
    (made,) = (node for node in fused(Given(**options), *given) if "attention" in str(node.target))
    assert made.target is torch.ops.modelbuild.attention.default
    assert made.args[4:6] == (options.get("is_causal", False), options.get("scale", 8**-0.5))


@pytest.mark.parametrize(
    "given",
    [
        [torch.randn(2, 4, 8)] * 3,  # no heads
        [torch.randn(1, 1, 4, 512)] * 3,  # too large a head
        [torch.randn(2, 2, 4, 8), *[torch.randn(1, 2, 4, 8)] * 2],  # keys that are broadcast
    ],
)
def test_unfused_attention_becomes_atens(given: list[Tensor], fused: Any) -> None:
    (made,) = (node for node in fused(Given(), *given) if "attention" in str(node.target))
    assert made.target is torch.ops.aten.scaled_dot_product_attention.default


@pytest.mark.parametrize("capability", sorted(GPUS))
@pytest.mark.parametrize("itemsize", [2, 4])
def test_each_gpu_has_a_tile_for_each_head(capability: int, itemsize: int) -> None:
    gpu = GPUS[capability]
    for size in (8, 40, 64, 96, 128, 256):
        for queries in (1, 49, 197, 4096):
            shape = (12, queries, queries, size, itemsize, gpu.processors, gpu.shared_memory)
            rows, columns, warps, stages = tile_of(*shape)
            assert min(rows, columns) >= 16
            assert rows & (rows - 1) == columns & (columns - 1) == 0
            assert (warps, stages) >= (1, 1)
            assert 2 * (rows + columns * stages) * block_of(size) * itemsize <= gpu.shared_memory


def test_few_queries_are_divided_among_more_blocks() -> None:
    gpu = GPUS[90]
    few, many = (tile_of(heads, 197, 197, 64, 4, gpu.processors, gpu.shared_memory) for heads in (12, 96))
    assert few[0] < many[0]
