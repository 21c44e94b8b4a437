"""Convolutions of volumes equal their forms as convolutions of images."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modelbuild_rules.program.steps.lowering.rewrites.volumes import as_images

FORMS: dict[str, dict[str, Any]] = {
    "plain": {"kernel_size": 3, "padding": 1},
    "along the depth": {"kernel_size": (3, 1, 1), "stride": (2, 1, 1), "padding": (1, 0, 0), "bias": False},
    "in space": {"kernel_size": (1, 3, 3), "stride": (1, 2, 2), "padding": (0, 1, 1)},
    "dilated groups": {"kernel_size": 3, "groups": 2, "dilation": (2, 1, 2)},
    "same": {"kernel_size": (2, 3, 2), "padding": "same"},
    "valid": {"kernel_size": 2, "padding": "valid"},
    "depthwise": {"kernel_size": 3, "groups": 4, "stride": 2, "padding": 2},
}
TRANSPOSED: dict[str, dict[str, Any]] = {
    "doubled": {"kernel_size": 2, "stride": 2},
    "doubled and cut": {"kernel_size": 4, "stride": 2, "padding": 1, "bias": False},
    "longer at the end": {"kernel_size": 3, "stride": (2, 2, 1), "padding": (1, 0, 1), "output_padding": (1, 1, 0)},
    "longer without padding": {"kernel_size": 2, "stride": 3, "output_padding": 2},
    "dilated groups": {"kernel_size": (3, 2, 2), "groups": 2, "dilation": (2, 1, 1), "padding": (2, 0, 0)},
}


def check(net: nn.Module, x: Tensor) -> Any:
    """Rewrite all convolutions of a net, compare it with eager mode, and return the weights' dimensions."""
    program = torch.export.export(net.eval(), (x,))
    names = [node.name for node in program.graph.nodes if "conv" in node.name]
    assert as_images(program, names) is program
    torch.testing.assert_close(program.module()(x), net(x), rtol=1e-4, atol=1e-4)
    convolutions = [node for node in program.graph.nodes if node.target is torch.ops.aten.convolution.default]
    assert all(node.args[1].meta["val"].dim() == 4 for node in convolutions)
    return [node.args[1].op for node in convolutions]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("batch", [(2,), ()])
def test_every_form_equals_eager_mode_with_stored_weights(form: str, batch: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    net = nn.Conv3d(4, 8, **FORMS[form])
    assert check(net, torch.randn(*batch, 4, 7, 8, 9)) == ["placeholder"]


@pytest.mark.parametrize("form", TRANSPOSED)
@pytest.mark.parametrize("batch", [(2,), ()])
def test_every_transposed_form_equals_eager_mode_with_stored_weights(form: str, batch: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    net = nn.ConvTranspose3d(4, 8, **TRANSPOSED[form])
    assert check(net, torch.randn(*batch, 4, 3, 4, 5)) == ["placeholder"]


def test_a_weight_with_other_users_keeps_its_shape() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 4, 3, 3, 3))

        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.conv3d(x, self.weight) + self.weight.sum()

    assert check(Tied(), torch.randn(1, 4, 5, 5, 5)) == ["call_function"]


def test_other_nodes_are_left() -> None:
    program = torch.export.export(nn.ConvTranspose2d(2, 2, 2), (torch.randn(1, 2, 3, 3),))
    before = str(program.graph)
    assert str(as_images(program, [node.name for node in program.graph.nodes]).graph) == before
