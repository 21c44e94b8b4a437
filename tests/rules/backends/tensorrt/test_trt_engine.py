"""Building engines: shapes, results, and TensorRT's error messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps.partition_files import read_partition
from modelbuild_rules.backends.tensorrt.steps.engine import engine, lowering
from modelbuild_rules.backends.tensorrt.steps.engine.bisection import part
from modelbuild_rules.backends.tensorrt.steps.engine.engine import build


class Relu(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


def built(made: Any, attributes: Mapping[str, Any]) -> Any:
    return build(read_partition(made.folder / "partitions/p0")[0], attributes)


def test_one_tensor_given_twice(partition: Callable[..., Any], tmp_path: Path, compiled: Mapping[str, Any]) -> None:
    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = torch.relu(x)
            return y, y

    engine = built(partition(Twice(), (torch.ones(2, 3),), tmp_path / "made"), compiled)
    assert len(set(engine.outputs)) == len(engine.outputs)


def test_building_shows_its_steps_and_changes_no_byte(
    partition: Callable[..., Any], tmp_path: Path, compiled: Mapping[str, Any]
) -> None:
    made = partition(Relu(), (torch.ones(2, 4),), tmp_path / "made")
    parts: list[tuple[Any, ...]] = []

    def progress(*part: Any) -> None:
        parts.append(part)

    program = read_partition(made.folder / "partitions/p0")[0]
    shown = build(program, compiled, progress)
    (first,), *steps = parts
    assert first == "converting to TensorRT"
    assert steps
    assert all(1 <= number <= total for _, number, total in steps)
    assert bytes(shown.plan) == bytes(built(made, compiled).plan)


def test_topk_and_sort_of_one_dimension(
    partition: Callable[..., Any], tmp_path: Path, compiled: Mapping[str, Any]
) -> None:
    """TensorRT's layer wants two dimensions."""

    class Best(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return (*torch.topk(x, 2), *torch.sort(x * 2, descending=True))

    made = partition(Best(), (torch.rand(7),), tmp_path / "made")
    assert made.why("aten.topk.default") == made.why("aten.sort.default") == ""
    assert len(built(made, compiled).outputs) == 4


@pytest.mark.parametrize("size", [15, 16])
def test_a_pooling_that_rounds_up(
    partition: Callable[..., Any], tmp_path: Path, compiled: Mapping[str, Any], size: int
) -> None:
    """The partition step checks that it computes the same."""

    class Up(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pools = nn.ModuleList([nn.MaxPool2d(3, 2, ceil_mode=True), nn.MaxPool2d(2, 2, 1, ceil_mode=True)])

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [pool(x) for pool in self.pools]

    made = partition(Up(), (torch.randn(1, 2, size, size) - 5,), tmp_path / "made")
    assert {node["backend"] for node in made.report.values()} == {"tensorrt"}
    assert len(built(made, compiled).outputs) == 2


def test_profiles(partition: Callable[..., Any], tmp_path: Path, compiled: Mapping[str, Any]) -> None:
    batch = ({0: torch.export.Dim("batch", min=1, max=8)},)
    profiles = [
        {"x": {"min": [1, 4], "opt": [1, 4], "max": [2, 4]}},
        {"x": {"min": [2, 4], "opt": [8, 4], "max": [8, 4]}},
    ]
    made = [
        partition(Relu(), (torch.ones(2, 4),), tmp_path / name, {"optimization_profiles": given}, dynamic=batch)
        for name, given in (("one", profiles[:1]), ("two", profiles))
    ]
    one, two = (bytes(built(each, compiled).plan) for each in made)
    assert one != two
    for wrong, message in (
        ({"y": profiles[0]["x"]}, "no input 'y'"),
        ({"x": {"min": [1], "opt": [1], "max": [1]}}, "with 2 sizes each"),
        ({"x": {"min": [1, 4], "opt": [1, 5], "max": [2, 4]}}, "dimension 1 is always 4"),
        ({"x": {"min": [1, 4], "opt": [1, 4], "max": [9, 4]}}, "dimension 0 is 1 to 8 in the model"),
    ):
        table = {"optimization_profiles": [wrong]}
        with pytest.raises(StepError, match=message):
            partition(Relu(), (torch.ones(2, 4),), tmp_path / message[:12], table, dynamic=batch)


def test_a_dimension_without_a_greatest_size(partition: Callable[..., Any], tmp_path: Path) -> None:
    free = ({0: torch.export.Dim("batch")},)
    with pytest.raises(StepError, match="dimension 0 of input 'x' has no maximum size; expected 'max' in the model's"):
        partition(Relu(), (torch.ones(2, 4),), tmp_path / "made", dynamic=free)


def test_refusals_of_tensorrt(
    partition: Callable[..., Any], tmp_path: Path, compiled: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the decomposition of topk, the converter makes a layer that TensorRT refuses."""
    made = partition(Relu(), (torch.ones(2, 4),), tmp_path / "made")
    with pytest.raises(StepError, match=r"builds nothing for compute capability 9.0; expected one of 7.5"):
        built(made, {**compiled, "compute_capabilities": ["9.0"]})

    class Best(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.topk(x, 2)[0] + 1

    best = partition(Best(), (torch.rand(7),), tmp_path / "best")
    original = lowering.decompositions

    def without(settings: Any) -> Any:
        return {key: value for key, value in original(settings).items() if key != torch.ops.aten.topk.default}

    monkeypatch.setattr(lowering, "decompositions", without)
    with pytest.raises(StepError, match=r"TensorRT .*at least 2 dimensions are required"):
        built(best, compiled)
    engine = {**compiled}
    left = partition(Best(), (torch.rand(7),), tmp_path / "left", {"engine": engine})
    backends = {op: node["backend"] for op, node in left.report.items()}
    assert backends["aten.topk.default"] == "portable"
    assert backends["aten.add.Tensor"] == "tensorrt"
    assert "at least 2 dimensions are required" in left.why("aten.topk.default")


class Cache(nn.Module):
    """A row of a cache is replaced: an index after slices, and a buffer that is a result too."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(1, 2, 6, 3))

    def forward(self, row: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        self.kept[:, :, place] = row
        return torch.relu(self.kept)


class Counter(nn.Module):
    """A constant beside a changed buffer, and a copy of a result as another result."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.count.add_(1)
        return torch.relu(x) * self.count, self.count.clone()


class Half(nn.Module):
    """bfloat16 inside, float32 outside, and an alias of a result."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(32, 32).bfloat16()
        self.norm = nn.RMSNorm(32).bfloat16()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.alias(self.norm(self.inner(x.bfloat16()))).float()


@pytest.mark.parametrize(
    ("module", "inputs"),
    [
        (Cache, (torch.rand(1, 2, 1, 3), torch.tensor([4]))),
        (Cache, (torch.rand(1, 2, 2, 3), torch.tensor([4, 0]))),
        (Counter, (torch.rand(2, 3),)),
        (Half, (torch.rand(4, 32),)),
    ],
    ids=["a row of a cache", "two rows", "a counter", "bfloat16"],
)
def test_state_and_types_of_language_models_are_one_engine(
    partition: Callable[..., Any],
    link: Callable[..., Path],
    tmp_path: Path,
    module: type[nn.Module],
    inputs: tuple[torch.Tensor, ...],
) -> None:
    torch.manual_seed(0)
    made = partition(module(), inputs, tmp_path / "made")
    assert {node["backend"] for node in made.report.values()} == {"tensorrt"}
    assert len(made.plan) == 1
    assert link(made).stat().st_size > 1000


def test_a_planted_fault_is_found(
    partition: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lowering with different results fails the partition step, which names the partition."""
    from modelbuild_rules.backends.tensorrt.steps import partitioning

    original = engine.lowered

    def faulty(program: Any, settings: Any, precision: str) -> Any:
        module = original(program, settings, precision)
        for node in module.graph.nodes:
            if node.target is torch.ops.aten.relu.default:
                node.target = torch.ops.aten.sigmoid.default
        module.recompile()
        return module

    monkeypatch.setattr(partitioning, "lowered", faulty)
    with pytest.raises(StepError, match=r"output 0 of partition p0, as TensorRTBackend compiles it, differs from"):
        partition(Relu(), (torch.ones(2, 4),), tmp_path / "made")


def test_the_beginnings_of_a_partition_can_be_built(
    partition: Callable[..., Any], tmp_path: Path, compiled: Mapping[str, Any]
) -> None:
    class Parts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            one, other = torch.split(self.inner(x), [1, 3], 1)
            return torch.relu(one * other + y)

    made = partition(Parts(), (torch.ones(2, 4), torch.ones(3)), tmp_path / "made")
    program = read_partition(made.folder / "partitions/p0")[0]
    found = {}
    for count in (2, 3, 4):
        tried = part(program, 0, count)
        assert tried is not None
        engine = build(tried, compiled)
        found[count] = (len(engine.inputs), len(engine.outputs))
    assert found == {2: (1, 1), 3: (1, 2), 4: (1, 1)}
