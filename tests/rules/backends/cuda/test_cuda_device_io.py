"""Programs with inputs and outputs in device memory: memory of the caller, and unsupported programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modelbuild.step import StepError
from modelbuild_runtime.files.pte import Method, read_program_file


def method(lowered: Any) -> Method:
    (found,) = read_program_file(lowered.folder / "residual/program.pte").methods
    return found


def test_inputs_and_outputs_of_a_gpu_part_stay_in_its_memory(lowering: Any, programs: Mapping[str, Any]) -> None:
    program = programs["attention"].make()[0]
    left = method(lowering(program, [lowering.cuda()], device_io=True))
    for value in (*left.inputs, *left.outputs):
        assert (value.device, value.planned) == ("cuda:0", False)
    assert left.operators == ()
    copied = method(lowering(program, [lowering.cuda()]))
    for value in (*copied.inputs, *copied.outputs):
        assert (value.device, value.planned) == ("cpu", True)
    assert {name for name, _ in copied.operators} == {"et_copy::_h2d_copy.out", "et_copy::_d2h_copy.out"}


class Both(nn.Module):
    """An input for the GPU and for the CPU."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.sin(x) * 2, torch.cos(x)


def test_an_input_of_two_places_is_refused(lowering: Any) -> None:
    program = torch.export.export(Both(), (torch.ones(4),))
    backends = [lowering.cuda(min_block_size=1, exclude_ops=["aten.cos.default"]), lowering.PORTABLE]
    with pytest.raises(StepError, match=r"^device_io: input 'x' goes to several parts, or to one on a GPU and to the"):
        lowering(program, backends, device_io=True)
