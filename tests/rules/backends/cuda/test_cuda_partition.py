"""The nodes that the CUDA backend takes, alone and with other backends, and its data for the compiler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._inductor.lowering import lowerings
from torch.export import export

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps.cut import SIZE_UNKNOWN
from modelbuild_rules.backend_api.steps.partition_files import read_partition
from modelbuild_rules.backends.cuda.steps.generate.generate import _to_aten
from modelbuild_rules.backends.cuda.steps.generate.support import (
    CONTROL_FLOW,
    DATA_DEPENDENT,
    DTYPE,
    EXCLUDED,
    NO_KERNEL,
)


def why(lowered: Any, op: str) -> set[str]:
    """Return the reason why CUDA did not take an operator."""
    refused = [r for fact in lowered.report if fact["op"] == op for r in fact["refused"] if r["backend"] == "cuda"]
    return {each["why"] for each in refused}


def shapes(lowered: Any, id: str) -> set[tuple[int, ...]]:
    """Return the shapes of a partition's constants."""
    program, _ = read_partition(lowered.folder / "partitions" / id)
    return {tuple(tensor.shape) for tensor in {**program.state_dict, **program.constants}.values()}


def test_alone_it_takes_everything(lowering: Any, programs: Mapping[str, Any]) -> None:
    lowered = lowering(programs["attention"].make()[0], [lowering.cuda()])
    assert [part["kind"] for part in lowered.plan] == ["cuda"]
    assert lowered.taken(None) == []


@pytest.mark.parametrize("error", [MemoryError("no memory"), FileNotFoundError("no ptxas")])
def test_a_lack_of_memory_or_files_is_an_error(
    lowering: Any, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """No node is left to another backend because of it: the program would depend on the machine."""

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setitem(lowerings, torch.ops.aten.sigmoid.default, fail)
    program = export(nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()), (torch.rand(2, 4),))
    with pytest.raises(type(error), match=str(error)):
        lowering(program, [lowering.cuda(min_block_size=1), lowering.PORTABLE])


def test_data_dependent_nodes_and_their_users_are_left(lowering: Any, programs: Mapping[str, Any]) -> None:
    backends = [lowering.cuda(data_dependent_ops="fallback"), lowering.PORTABLE]
    lowered = lowering(programs["select"].make()[0], backends)
    assert "aten.nonzero.default" in lowered.taken("portable")
    assert "aten.index_select.default" in lowered.taken("portable")
    assert {"aten.addmm.default", "aten.sigmoid.default", "aten.amax.default"} <= set(lowered.taken("cuda"))
    assert why(lowered, "aten.nonzero.default") == why(lowered, "aten.index_select.default") == {DATA_DEPENDENT}


@pytest.mark.parametrize(
    "name",
    [
        "distinct",
        *(
            pytest.param(each, marks=pytest.mark.exhaustive)
            for each in ("select", "detector", "regions", "keypoints", "counted")
        ),
    ],
)
def test_data_dependent_nodes_and_their_users_are_taken(name: str, lowering: Any, programs: Mapping[str, Any]) -> None:
    lowered = lowering(programs[name].make()[0], [lowering.cuda(), lowering.PORTABLE])
    assert (len(lowered.plan), lowered.taken("portable")) == (1, [])


def test_other_counts_are_left(lowering: Any) -> None:
    class Counts(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            found = torch.unique(x, dim=0)
            return found, torch.bincount(x, minlength=256), found * 2

    lowered = lowering(export(Counts(), (torch.zeros(4, dtype=torch.uint8),)), [lowering.cuda(), lowering.PORTABLE])
    assert {"aten.unique_dim.default", "aten.bincount.default"} <= set(lowered.taken("portable"))
    assert "aten.mul.Tensor" in lowered.taken("cuda")
    assert why(lowered, "aten.unique_dim.default") == {NO_KERNEL}


def test_sizes_computed_from_a_count_elsewhere_are_left(lowering: Any) -> None:
    class Half(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
            found = torch.unique(x, dim=0)[:10].cumprod(0)
            return found.flip(0) * 2, y.sin()

    backends = [lowering.cuda(exclude_ops=["aten.cumprod.default"]), lowering.PORTABLE]
    lowered = lowering(export(Half(), (torch.zeros(40), torch.zeros(3))), backends)
    assert why(lowered, "aten.flip.default") == {SIZE_UNKNOWN}
    assert "aten.sin.default" in lowered.taken("cuda")


def test_no_partition_only_checks_sizes(lowering: Any) -> None:
    class Found(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            return torch.unique(x, dim=0), x.sin()

    lowered = lowering(export(Found(), (torch.zeros(4),)), [lowering.cuda(), lowering.PORTABLE])
    assert lowered.taken("cuda") == ["aten.sin.default"]


def test_data_dependent_nodes_can_be_an_error(lowering: Any, programs: Mapping[str, Any]) -> None:
    with pytest.raises(StepError, match=r'"error": .*aten\.nonzero\.default.*expected no such.*"take" or "fallback"'):
        lowering(programs["select"].make()[0], [lowering.cuda(data_dependent_ops="error"), lowering.PORTABLE])


def test_after_another_backend_it_sees_what_is_left(lowering: Any, programs: Mapping[str, Any]) -> None:
    program = programs["both"].make()[0]
    lowered = lowering(program, [lowering.XNNPACK, lowering.cuda(), lowering.PORTABLE])
    kinds = [part["kind"] for part in lowered.plan]
    assert kinds.count("xnnpack") == kinds.count("cuda") == 2
    assert set(lowered.taken("xnnpack")) == {"aten.convolution.default"}
    assert set(lowered.taken("cuda")) == {
        *("aten.sin.default", "aten.mul.Tensor", "aten.cumsum.default", "aten.add.Tensor")
    }
    assert lowered.taken("portable") == []
    # Constants belong to the partitions that use them; the unused one belongs to one partition.
    parts: dict[str, list[set[tuple[int, ...]]]] = {"xnnpack": [], "cuda": []}
    for part in lowered.plan:
        parts[part["kind"]].append(shapes(lowered, part["id"]) - {(5,)})
    assert sorted(parts["xnnpack"], key=sorted) == [{(2,), (2, 6, 1, 1)}, {(6,), (6, 3, 3, 3)}]
    assert sorted(parts["cuda"], key=sorted) == [{(2, 1, 1)}, {(6, 1, 1)}]


def test_before_another_backend_it_takes_all(lowering: Any, programs: Mapping[str, Any]) -> None:
    lowered = lowering(programs["both"].make()[0], [lowering.cuda(), lowering.XNNPACK, lowering.PORTABLE])
    assert {part["kind"] for part in lowered.plan} == {"cuda"}


def test_a_buffer_that_changes_belongs_to_the_partition(lowering: Any, programs: Mapping[str, Any]) -> None:
    lowered = lowering(programs["cache"].make()[0], [lowering.cuda()])
    (part,) = lowered.plan
    program, _ = read_partition(lowered.folder / "partitions" / part["id"])
    assert len(program.graph_signature.buffers_to_mutate) == 1


def test_a_buffers_new_value_may_be_a_slice(lowering: Any, programs: Mapping[str, Any]) -> None:
    """The slice is copied for the compiler, and the copy becomes the new value."""
    lowered = lowering(programs["stream"].make()[0], [lowering.cuda()])
    (part,) = lowered.plan
    program, _ = read_partition(lowered.folder / "partitions" / part["id"])
    _to_aten(program)
    program.validate()
    (name,) = program.graph_signature.buffers_to_mutate
    (made,) = (node for node in program.graph.nodes if node.name == name)
    assert made.target is torch.ops.aten.clone.default


class Odd(nn.Module):
    """An operator without a kernel, and a number of more bits than the delegate has."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.relu(nn.functional.pdist(x)), x.to(torch.float64) * 2


def test_operators_without_a_kernel_are_left(lowering: Any) -> None:
    lowered = lowering(export(Odd().eval(), (torch.randn(4, 4),)), [lowering.cuda(), lowering.PORTABLE])
    assert why(lowered, "aten._pdist_forward.default") == {NO_KERNEL}
    assert why(lowered, "aten.mul.Tensor") == {DTYPE.format("float64")}
    assert lowered.taken("cuda") == ["aten.relu.default"]


class Forms(nn.Module):
    """Convolutions of all forms, and operators that are decomposed for this backend alone."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Sequential(nn.Conv1d(4, 4, 3, dilation=2), nn.Conv1d(4, 4, 1), nn.ConvTranspose1d(4, 4, 4, 2))
        self.image = nn.Sequential(nn.Conv2d(1, 2, 3, 1, 2, 2), nn.ConvTranspose2d(2, 2, 2, 2), nn.Upsample(None, 2))
        self.volume = nn.Conv3d(1, 2, 1)
        self.bag = nn.EmbeddingBag(10, 4, mode="mean")

    def forward(self, x: Tensor, index: Tensor) -> tuple[Tensor, ...]:
        means = x[0].scatter_reduce(0, index, x[0], "mean")
        line = self.line(x).unsqueeze(1)
        return self.image(line), self.volume(line.unsqueeze(1)), means, torch.histc(x, 4), self.bag(index)


def test_convolutions_of_all_forms_and_what_is_decomposed_are_taken(lowering: Any) -> None:
    given = (torch.randn(1, 4, 12), torch.zeros(4, 12, dtype=torch.int64))
    lowered = lowering(export(Forms().eval(), given), [lowering.cuda()])
    assert lowered.taken(None) == []
    taken = lowered.taken("cuda")
    assert taken.count("aten.convolution.default") == 6
    assert {"aten.scatter_reduce.two", "aten.histc.default", "aten.upsample_nearest2d.vec"} <= set(taken)
    assert any(op.startswith("aten._embedding_bag") for op in taken)


class Greatest(nn.Module):
    def forward(self, x: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        return x.scatter_reduce(0, index, x, "amax"), x.scatter_reduce(0, index, x, "sum")


def test_of_reductions_by_index_sums_alone_are_taken(lowering: Any) -> None:
    given = (torch.randn(4, 12), torch.zeros(4, 12, dtype=torch.int64))
    lowered = lowering(export(Greatest(), given), [lowering.cuda(), lowering.PORTABLE])
    assert why(lowered, "aten.scatter_reduce.two") == {NO_KERNEL}
    assert lowered.taken("portable") == lowered.taken("cuda") == ["aten.scatter_reduce.two"]


def test_control_flow_is_left(lowering: Any, programs: Mapping[str, Any]) -> None:
    lowered = lowering(programs["branch"].make()[0], [lowering.cuda(), lowering.PORTABLE])
    assert why(lowered, "higher_order.cond") == {CONTROL_FLOW}
    assert "aten.add.Tensor" in lowered.taken("cuda")
    assert {"aten.sin.default", "aten.cos.default"} <= set(lowered.taken("portable"))


def test_operators_can_be_excluded(lowering: Any, programs: Mapping[str, Any]) -> None:
    excluded = lowering.cuda(exclude_ops=["aten.gelu.default"])
    lowered = lowering(programs["mlp"].make()[0], [excluded, lowering.PORTABLE])
    assert lowered.taken("portable") == ["aten.gelu.default"]
    assert why(lowered, "aten.gelu.default") == {EXCLUDED}
    assert len(lowered.plan) == 2


def test_small_blocks_are_left(lowering: Any, programs: Mapping[str, Any]) -> None:
    split = lowering.cuda(exclude_ops=["aten.gelu.default"], min_block_size=3)
    lowered = lowering(programs["mlp"].make()[0], [split, lowering.PORTABLE])
    (part,) = lowered.plan
    assert part["nodes"] >= 3
    assert "aten.addmm.default" in lowered.taken("portable")


def test_an_operator_that_does_not_exist_is_an_error(lowering: Any, programs: Mapping[str, Any]) -> None:
    with pytest.raises(
        StepError, match=r"attribute 'exclude_ops' of backend 0: no operator 'aten\.gelo\.default'.*aten\.gelu\.default"
    ):
        lowering(programs["mlp"].make()[0], [lowering.cuda(exclude_ops=["aten.gelo.default"])])


TENSORRT: Mapping[str, Any] = {
    "kind": "tensorrt",
    "partitioning": "modelbuild_rules.backends.tensorrt.steps.partitioning",
    "attributes": {
        "flavour": "rtx",
        "precision": "fp32",
        "min_block_size": 1,
        "exclude_ops": ["aten.sin.default", "aten.mul.Tensor", "aten.cumsum.default", "aten.add.Tensor"],
        "optimization_profiles": [],
        "fallback_data_dependent_ops": True,
        "target_device": "cuda:0",
        "engine": None,
    },
}


def test_after_tensorrt_it_sees_what_is_left(lowering: Any, programs: Mapping[str, Any]) -> None:
    lowered = lowering(programs["both"].make()[0], [TENSORRT, lowering.cuda(), lowering.PORTABLE])
    kinds = [part["kind"] for part in lowered.plan]
    assert kinds.count("tensorrt") == kinds.count("cuda") == 2
    assert set(lowered.taken("tensorrt")) == {"aten.convolution.default"}
    assert set(lowered.taken("cuda")) == set(TENSORRT["attributes"]["exclude_ops"])
    assert lowered.taken("portable") == []
    parts = [shapes(lowered, part["id"]) - {(5,)} for part in lowered.plan if part["kind"] == "cuda"]
    assert sorted(parts, key=sorted) == [{(2, 1, 1)}, {(6, 1, 1)}]


def test_a_second_backend_takes_nodes_that_the_first_leaves(lowering: Any, programs: Mapping[str, Any]) -> None:
    first, second = lowering.cuda(exclude_ops=["aten.gelu.default"]), lowering.cuda()
    lowered = lowering(programs["mlp"].make()[0], [first, second, lowering.PORTABLE])
    assert [(part["kind"], part["entry"]) for part in lowered.plan] == [("cuda", 0), ("cuda", 0), ("cuda", 1)]
    assert why(lowered, "aten.gelu.default") == {EXCLUDED}
    assert lowered.taken("portable") == []


class Refused(nn.Module):
    """Operators that Inductor compiles in some forms only."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        chosen = (x > 0).scatter(3, (x > 9).long(), x < 1)
        wide, deep = nn.functional.avg_pool2d(x, 13, 1, 6), nn.functional.avg_pool3d(x, 4, 1)
        return wide, deep, chosen, x.kthvalue(2)[0], x.median(3)[0], x.mode(3)[0], x + 1


def test_operators_of_libtorch_are_left(lowering: Any) -> None:
    lowered = lowering(export(Refused(), (torch.randn(1, 4, 20, 20),)), [lowering.cuda(), lowering.PORTABLE])
    left = {"avg_pool2d.default", "avg_pool3d.default", "scatter.src", "kthvalue.default", "median.dim", "mode.default"}
    for name in left:
        assert why(lowered, f"aten.{name}") == {NO_KERNEL}
    assert "aten.add.Tensor" in lowered.taken("cuda")
