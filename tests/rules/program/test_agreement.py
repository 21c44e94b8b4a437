"""The comparison of a partitioned program with the original, both in eager mode."""

from __future__ import annotations

import pytest
import torch
from executorch.exir import to_edge
from torch import nn

from modelbuild.step import StepError
from modelbuild_rules.program.steps.lowering.agreement import check_agreement


class Counter(nn.Module):
    def __init__(self, step: float = 1.0, persistent: bool = True) -> None:
        super().__init__()
        self.step = step
        self.register_buffer("count", torch.zeros(4), persistent=persistent)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(x * self.step)
        return self.count * 2


def exported(module: nn.Module) -> torch.export.ExportedProgram:
    return torch.export.export(module, (torch.ones(4),))


@pytest.mark.parametrize("persistent", [True, False])
def test_the_state_stays_the_initial_one(persistent: bool) -> None:
    program = exported(Counter(persistent=persistent))
    edge = to_edge(exported(Counter(persistent=persistent))).exported_program()
    for _ in range(2):
        check_agreement(program, edge, lambda id: pytest.fail(id), [torch.ones(4)])
    for each in (program, edge):
        stored = {**each.constants, **each.state_dict}
        assert stored["count"].tolist() == [0, 0, 0, 0]


def test_a_program_with_other_results_is_refused() -> None:
    edge = to_edge(exported(Counter(step=2.0))).exported_program()
    with pytest.raises(StepError, match="output 0 of the partitioned program differs from the model's"):
        check_agreement(exported(Counter()), edge, lambda id: pytest.fail(id), [torch.ones(4)])
