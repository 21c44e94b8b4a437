"""Which nodes TensorRT takes: by the converter that would be selected for that very node, and why not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from modelbuild.step import StepError
from modelbuild_rules.backends.tensorrt.steps.engine.engine import PROFILES


class Indexed(nn.Module):
    """nonzero and a boolean index, whose results' sizes depend on values, and an integer index, whose result's does
    not."""

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.relu(x)
        return y[i], torch.nonzero(y.reshape(-1)), torch.masked_select(y, y > 0)


class Dilated(nn.Module):
    """Two poolings: the converter's validator takes the first and refuses the second."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.MaxPool2d(2)
        self.second = nn.MaxPool2d(2, dilation=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(self.second(torch.sigmoid(self.first(x))))


class Bodied(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shifted = torch.bitwise_left_shift((torch.sigmoid(torch.relu(x)) * 8).int(), torch.ones(3, 4, dtype=torch.int))
        return torch.exp(shifted.float())


class Shared(nn.Module):
    """A constant that each of two partitions reads twice."""

    def __init__(self) -> None:
        super().__init__()
        self.constant = torch.tensor([1.5, -2.0, 0.5, 3.0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = torch.sigmoid(x * self.constant + self.constant)
        shifted = torch.bitwise_left_shift((first * 8).int(), torch.ones(3, 4, dtype=torch.int))
        return torch.exp(shifted.float() * self.constant - self.constant)


def test_per_node(partition: Callable[..., Any], tmp_path: Path) -> None:
    made = partition(Indexed(), (torch.randn(4, 3), torch.tensor([2, 0])), tmp_path / "made")
    taken = {op for op, node in made.report.items() if node["backend"] == "tensorrt"}
    assert {"aten.relu.default", "aten.index.Tensor"} <= taken
    assert "output allocator" in made.why("aten.nonzero.default")
    refused = {node["op"] for node in made.report.values() if node["backend"] == "portable"}
    assert refused & {"aten.masked_select.default", "aten.nonzero.default"}
    assert all(node["refused"][0]["why"] for node in made.report.values() if node["backend"] == "portable")


def test_partitions_share_a_constant_with_several_readers(partition: Callable[..., Any], tmp_path: Path) -> None:
    made = partition(Shared(), (torch.randn(3, 4),), tmp_path / "made")
    assert len(made.plan) == 2


def test_support_honours_each_nodes_validator(partition: Callable[..., Any], tmp_path: Path) -> None:
    made = partition(Dilated(), (torch.randn(1, 2, 16, 16),), tmp_path / "made")
    backends = {op: node["backend"] for op, node in made.report.items() if "max_pool" in op}
    # What is left is a pool of volumes for modelbuild's kernel.
    refused = "aten.max_pool3d_with_indices.default"
    assert backends == {"aten.max_pool2d_with_indices.default": "tensorrt", refused: "portable"}
    assert made.why(refused) == "the converter's validator rejects it"
    assert made.report["aten.sin.default"]["backend"] == "tensorrt"


def test_with_fallback_off_nothing_is_left_for_its_allocator() -> None:
    from executorch.exir import EdgeCompileConfig, to_edge

    from modelbuild_rules.backends.tensorrt.steps.engine.settings import compilation_settings
    from modelbuild_rules.backends.tensorrt.steps.engine.support import OUTPUT_ALLOCATOR, Support

    class Nonzero(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nonzero(x)

    exported = torch.export.export(Nonzero(), (torch.ones(4),))
    edge = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False)).exported_program()
    refused = {
        off: Support(edge, compilation_settings({"fallback_data_dependent_ops": not off})).refused
        for off in (False, True)
    }
    assert OUTPUT_ALLOCATOR in refused[False].values()
    assert OUTPUT_ALLOCATOR not in refused[True].values()


def test_operators_to_leave_and_small_blocks(partition: Callable[..., Any], tmp_path: Path) -> None:
    x = (torch.rand(3, 4),)
    left = partition(Bodied(), x, tmp_path / "left", {"exclude_ops": ["aten.sigmoid.default"]})
    assert left.why("aten.sigmoid.default") == "listed in exclude_ops"
    assert left.why("aten.bitwise_left_shift.Tensor") == "no converter"
    small = partition(Bodied(), x, tmp_path / "small", {"min_block_size": 3})
    assert small.why("aten.exp.default") == "in a block of 2 operators, below min_block_size 3"
    assert small.report["aten.relu.default"]["backend"] == "tensorrt"


@pytest.mark.parametrize("culprits", [{"sin"}, {"sin", "tanh"}, {"split_with_sizes"}, {"relu"}])
def test_a_failure_without_an_operator_leaves_only_the_node_at_fault(
    partition: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, culprits: set[str]
) -> None:
    """As if TensorRT failed over a combination of layers, and logged no name."""

    class Chain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            one, other = torch.split(self.first(torch.relu(x)), [1, 3], 1)
            return torch.exp(torch.tanh(torch.sigmoid(torch.sin(torch.cos(one) + other))))

    def build(program: Any, attributes: Any) -> None:
        lowered = {node.target._op._schema.name.removeprefix("aten::") for node in computing_nodes(program)}
        assert program.module()(*[torch.ones(2, *value.shape[1:]) for value in user_inputs(program)]) is not None
        if {name.removesuffix("_copy") for name in lowered} & culprits:
            raise StepError("TensorRT can't build the engine: it logged no reason")

    monkeypatch.setattr("modelbuild_rules.backends.tensorrt.steps.partitioning.build", build)
    made = partition(Chain(), (torch.rand(2, 4),), tmp_path / "made", {"engine": {}})
    left = {op.split(".")[1] for op, node in made.report.items() if node["backend"] == "portable"}
    assert {name.removesuffix("_copy") for name in left} == culprits
    assert all(
        "it logged no reason" in made.why(op) for op, node in made.report.items() if node["backend"] == "portable"
    )


def test_parts_with_dynamic_sizes_are_tried_within_their_ranges(
    partition: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first node is at fault; the part after it begins with a tensor that the partition computes."""
    ranges: list[Any] = []

    def build(program: Any, attributes: Any) -> None:
        given = [node for node in program.graph.nodes if node.op == "placeholder"]
        ranges.extend(node.meta.get(PROFILES) for node in given if node.name in program.graph_signature.user_inputs)
        if any("relu" in str(node.target) for node in computing_nodes(program)):
            raise StepError("TensorRT can't build the engine: it logged no reason")

    class Chain(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.exp(torch.cos(torch.cat((torch.relu(x), x))))

    monkeypatch.setattr("modelbuild_rules.backends.tensorrt.steps.partitioning.build", build)
    rows = torch.export.Dim("rows", min=1, max=8)
    made = partition(Chain(), (torch.rand(2, 4),), tmp_path / "made", {"engine": {}}, dynamic=({0: rows},))
    assert {op for op, node in made.report.items() if node["backend"] == "portable"} == {"aten.relu.default"}
    assert all(shapes is not None for shapes in ranges)


def test_if_no_beginning_can_be_built_all_nodes_are_left(
    partition: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(program: Any, attributes: Any) -> None:
        raise StepError("TensorRT can't build the engine: it logged no reason")

    monkeypatch.setattr("modelbuild_rules.backends.tensorrt.steps.partitioning.build", build)
    made = partition(Bodied(), (torch.rand(3, 4),), tmp_path / "made", {"engine": {}})
    assert {node["backend"] for node in made.report.values()} == {"portable"}


def computing_nodes(program: Any) -> list[Any]:
    return [node for node in program.graph.nodes if node.op == "call_function" and hasattr(node.target, "_op")]


def user_inputs(program: Any) -> list[Any]:
    names = program.graph_signature.user_inputs
    return [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder" and node.name in names]


def test_an_operator_that_does_not_exist(partition: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(StepError, match=r"no operator 'aten.sigmod.default'.*did you mean 'aten.sigmoid.default'"):
        partition(Bodied(), (torch.rand(3, 4),), tmp_path / "made", {"exclude_ops": ["aten.sigmod.default"]})


@pytest.mark.parametrize("kind", [torch.float64, torch.complex64, torch.uint8, torch.int16])
def test_types_that_tensorrt_lacks(kind: torch.dtype) -> None:
    class Mixed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu((x.to(kind) + 1).abs().float())

    expected = "complex numbers" if kind.is_complex else f"TensorRT does not compute with {str(kind)[6:]}"
    from executorch.exir import EdgeCompileConfig, to_edge

    from modelbuild_rules.backends.tensorrt.steps.engine.settings import compilation_settings
    from modelbuild_rules.backends.tensorrt.steps.engine.support import Support

    exported = torch.export.export(Mixed(), (torch.ones(4),))
    edge = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False)).exported_program()
    support = Support(edge, compilation_settings({}))
    assert expected in support.refused.values()
    assert not any("relu" in name for name in support.refused)


def test_a_picture_of_a_camera_is_converted_before_the_engine(partition: Callable[..., Any], tmp_path: Path) -> None:
    class Camera(nn.Module):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return torch.relu(image.permute(2, 0, 1).float() / 255 - 0.5)

    picture = torch.randint(0, 256, (4, 5, 3), dtype=torch.uint8)
    made = partition(Camera(), (picture,), tmp_path / "made")
    assert made.why("aten.permute_copy.default") == "TensorRT does not compute with uint8"
    assert made.report["aten.relu.default"]["backend"] == "tensorrt"


def test_control_flow_is_left(partition: Callable[..., Any], tmp_path: Path) -> None:
    class Chosen(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x * 2, (torch.sigmoid(x),))

    made = partition(Chosen(), (torch.rand(3),), tmp_path / "made")
    assert made.why("higher_order.cond") == "no converter"
    assert made.report["aten.sigmoid.default"]["backend"] == "tensorrt"


def test_a_loop_that_executorch_cannot_run_is_named(partition: Callable[..., Any], tmp_path: Path) -> None:
    from torch._higher_order_ops.while_loop import while_loop

    class Looped(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            start = (torch.zeros((), dtype=torch.int64), torch.sigmoid(x))
            return while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x * 1.5), start)[1]

    with pytest.raises(StepError, match=r"can't run higher_order.while_loop \(node .*expected control flow"):
        partition(Looped(), (torch.rand(3),), tmp_path / "made")


def test_an_operator_that_cannot_be_decomposed_is_left(partition: Callable[..., Any], tmp_path: Path) -> None:
    class Scattered(nn.Module):
        def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            return torch.zeros(4).scatter_reduce(0, index, torch.sigmoid(x), "amax", include_self=False)

    made = partition(Scattered(), (torch.rand(6), torch.arange(6) % 4), tmp_path / "made")
    assert "can't decompose it: include_self False" in made.why("aten.scatter_reduce.two")
    assert made.report["aten.sigmoid.default"]["backend"] == "tensorrt"
