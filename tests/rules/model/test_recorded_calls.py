"""Calls of a module are recorded before it is exported."""

from __future__ import annotations

import os
import signal

import torch
from torch import Tensor, nn

from modelbuild_rules.model.steps.calls.drawn import EXAMPLE, DrawnCall
from modelbuild_rules.model.steps.calls.recorded import record


class EndsTheProcess(nn.Module):
    """As some operators of eager mode do for an index out of bounds."""

    def forward(self, index: Tensor) -> Tensor:
        if index.max() > 2:
            os.kill(os.getpid(), signal.SIGSEGV)
        return index * 2


def test_inputs_that_end_the_process_are_not_recorded() -> None:
    module = EndsTheProcess()
    good, bad = torch.tensor([0, 2]), torch.tensor([9, 1])
    drawn = [DrawnCall(EXAMPLE, [(good,)]), DrawnCall("other", [(bad,), (good,)]), DrawnCall("last", [(bad,)])]
    found = record(module, lambda inputs: module(*inputs), drawn)
    assert [call.name for call in found.calls] == [EXAMPLE, "other"]
    assert torch.equal(found.calls[1].inputs[0], good)
    assert "signal 11" in str(found.failure)
