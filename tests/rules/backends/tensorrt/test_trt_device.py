"""The device of tensors in ExecuTorch's metadata, and the GPU of an engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from modelbuild_rules.backends.tensorrt.backend import TENSORRT, Tensorrt
from modelbuild_rules.backends.tensorrt.blob_reader import read_engine
from modelbuild_runtime.files.pte import read_program_file


class Two(nn.Module):
    """Two partitions, separated by an excluded operator."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(torch.erf(torch.relu(x)))


X = torch.rand(2, 3)
SPLIT = {"exclude_ops": ["aten.erf.default"]}


def labels(pte: Path) -> list[tuple[str, int, set[str]]]:
    """Return for each delegate: its label, its engine's GPU, and the devices of its arguments in the program
    (extra_tensor_info)."""
    (method,) = read_program_file(pte).methods
    return [
        (
            dict(delegate.specs)["target_device"].decode(),
            read_engine(pte, delegate.offset, delegate.size).device,
            {value.device for value in delegate.arguments},
        )
        for delegate in method.delegates
    ]


def test_a_label_given_is_the_label_derived(
    partition: Callable[..., Any], link: Callable[..., Path], tmp_path: Path
) -> None:
    """Building is also repeatable: three programs built from scratch have the same bytes."""
    made = [link(partition(Two(), (X,), tmp_path / str(n), SPLIT)) for n in range(2)]
    explicit = link(partition(Two(), (X,), tmp_path / "explicit", {**SPLIT, "target_device": "cuda:0"}))
    assert labels(explicit) == [("cuda:0", 0, {"cuda:0"})] * 2
    assert len({path.read_bytes() for path in (*made, explicit)}) == 1
    engines = read_program_file(explicit).methods[0].delegates
    found = [read_engine(explicit, each.offset, each.size) for each in engines]
    assert [(each.inputs, each.outputs) for each in found] == [(("arg_0",), ("output0",))] * 2
    assert {each.compute_capabilities for each in found} == {("8.6", "8.9")}


def test_two_engines_on_two_gpus(partition: Callable[..., Any], link: Callable[..., Path], tmp_path: Path) -> None:
    """Two tables, one with its own GPU: each engine has the label of its GPU, as derived by the rule."""
    facts = {"arch": "x86_64", "os": "linux", "compute_capabilities": ("8.6",), "gpu": 0}
    tables = [
        Tensorrt(type="tensorrt", min_block_size=1, exclude_ops=("aten.erf.default", "aten.sigmoid.default")),
        Tensorrt(type="tensorrt", min_block_size=1, exclude_ops=("aten.erf.default",), gpu=1),
    ]
    given = [table.model_dump(mode="json") for table in tables]
    made = partition(Two(), (X,), tmp_path / "made", *(TENSORRT.partition_attributes(each, facts) for each in given))
    pte = link(made, {place: TENSORRT.compile_attributes(each, facts)["gpu"] for place, each in enumerate(given)})
    assert labels(pte) == [("cuda:0", 0, {"cuda:0"}), ("cuda:1", 1, {"cuda:1"})]


def test_a_label_given_is_taken_as_it_is(
    partition: Callable[..., Any], link: Callable[..., Path], tmp_path: Path
) -> None:
    """The device in ExecuTorch's metadata and the GPU in the engine may differ."""
    pte = link(partition(Two(), (X,), tmp_path / "made", {**SPLIT, "target_device": "cuda:3"}))
    assert labels(pte) == [("cuda:3", 0, {"cuda:3"})] * 2
