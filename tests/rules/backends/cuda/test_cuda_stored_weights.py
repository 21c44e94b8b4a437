"""Weights of convolutions are stored as kernels read them, with the normalization that follows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modelbuild_rules.backends.cuda.steps.constants import evaluated
from modelbuild_rules.backends.cuda.steps.generate import stored_weights


def change_weights(program: Any) -> None:
    """Change a program, and store its weights by their recipes, which are the same as JSON."""
    weights = dict(program.state_dict)
    recipes = json.loads(json.dumps(stored_weights.change_weights(program)))
    for name, recipe in recipes.items():
        made = evaluated(recipe, weights)
        assert (made.stride(), made.dtype) == (program.state_dict[name].stride(), program.state_dict[name].dtype)
        program._state_dict[name] = nn.Parameter(made, False)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.plain, self.deep = nn.Conv2d(4, 6, 3), nn.Conv2d(6, 12, (3, 2), groups=6)
        self.line, self.back = nn.Conv1d(4, 2, 3), nn.ConvTranspose2d(4, 4, 2)
        self.shared = nn.Parameter(torch.randn(6, 4, 3, 3))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        other = torch.nn.functional.conv2d(x, self.shared) + self.shared.sum()
        return self.deep(self.plain(x)), self.line(x.flatten(2)), self.back(x), other


def forward_convolution(node: Any) -> bool:
    return node.target is torch.ops.aten.convolution.default and not node.args[6]


def strides(program: Any) -> dict[str, Sequence[int]]:
    return {name: tensor.stride() for name, tensor in program.state_dict.items()}


def test_weights_of_convolutions_are_stored_with_their_channels_adjacent() -> None:
    torch.manual_seed(0)
    net, x = Net(), torch.randn(1, 4, 8, 8)
    program = torch.export.export(net, (x,)).run_decompositions()
    expected, before = program.module()(x), strides(program)
    change_weights(program)
    after = strides(program)
    changed = {name: after[name] for name in after if after[name] != before[name]}
    assert changed == {"plain.weight": (36, 1, 12, 4), "deep.weight": (1, 72, 24, 12), "line.weight": (12, 1, 4)}
    for node in program.graph.nodes:
        name = program.graph_signature.inputs_to_parameters.get(node.name)
        if name in changed:
            assert node.meta["val"].stride() == after[name]
    for one, other in zip(program.module()(x), expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("layer", "channels"),
    [
        (nn.Conv2d(3, 8, 7, 2, 3), 4),  # the first layer of a ResNet
        (nn.Conv2d(7, 8, (2, 5)), 8),
        (nn.Conv2d(3, 8, 5, 5, 1), 4),
        (nn.Conv2d(3, 8, 5, 5), 3),  # patches
        (nn.Conv2d(3, 8, 3), 3),  # one step
        (nn.Conv2d(6, 8, 5, groups=2), 3),
        (nn.Conv2d(1, 8, 9), 1),
        (nn.Conv2d(20, 8, 3), 20),
        (nn.Conv1d(3, 8, 3), 3),
    ],
)
def test_few_channels_of_many_taps_become_a_multiple_of_four(layer: nn.Module, channels: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, layer.in_channels, *([9] * (layer.weight.dim() - 2)))
    program = torch.export.export(layer, (x,)).run_decompositions()
    expected = program.module()(x)
    change_weights(program)
    (node,) = (each for each in program.graph.nodes if forward_convolution(each))
    assert program.state_dict["weight"].shape[1] == channels
    assert [each.meta["val"].shape[1] for each in node.args[:2]] == [channels * layer.groups, channels]
    torch.testing.assert_close(program.module()(x), expected)


class Normalized(nn.Module):
    """Convolutions before batch normalization: plain, without a bias, in groups, of one dimension and without a scale;
    before a normalization of two, with another use, transposed, and with a weight that another one has too."""

    def __init__(self) -> None:
        super().__init__()
        self.plain, self.bare, self.grouped = (
            nn.Conv2d(4, 6, 3),
            nn.Conv2d(6, 8, 1, bias=False),
            nn.Conv2d(8, 8, 3, groups=4),
        )
        self.line, self.unscaled = nn.Conv1d(8, 4, 3), nn.Conv2d(4, 6, 1)
        self.used, self.back, self.twice = nn.Conv2d(6, 6, 1), nn.ConvTranspose2d(6, 6, 2), nn.Conv2d(6, 6, 1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(n) for n in (6, 8, 8, 6, 6, 6))
        self.of_line, self.of_unscaled = nn.BatchNorm1d(4), nn.BatchNorm2d(6, affine=False)
        for each in self.modules():
            if isinstance(each, (nn.BatchNorm1d, nn.BatchNorm2d)):
                each.running_mean.uniform_(-0.5, 0.5)
                each.running_var.uniform_(0.5, 2.0)
                if each.affine:
                    nn.init.uniform_(each.weight, 0.5, 1.5)
                    nn.init.uniform_(each.bias)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        norms = self.norms
        x = norms[2](self.grouped(torch.relu(norms[1](self.bare(torch.relu(norms[0](self.plain(x))))))))
        line = self.of_line(self.line(x.flatten(2))).unsqueeze(3)
        unscaled = self.of_unscaled(self.unscaled(line))
        used = self.used(unscaled)
        back, twice = norms[4](self.back(unscaled)), norms[5](self.twice(unscaled))
        return x, line, norms[3](used) + used, back, twice, self.twice(used)


def test_a_batch_normalization_is_folded_into_the_convolution_before_it() -> None:
    torch.manual_seed(0)
    net, x = Normalized().eval(), torch.randn(2, 4, 9, 9)
    program = torch.export.export(net, (x,)).run_decompositions()
    expected, weights = program.module()(x), {name: tensor.clone() for name, tensor in program.state_dict.items()}
    change_weights(program)
    names = [str(node.target) for node in program.graph.nodes]
    assert names.count("aten._native_batch_norm_legit_no_training.default") == 4  # unscaled, used, back and twice
    kept = {name for name in weights if torch.equal(program.state_dict[name], weights[name])}
    folded = {"plain", "bare", "grouped", "line"}
    assert {name.split(".")[0] for name in weights if "weight" in name and name not in kept} == folded
    for one, other in zip(program.module()(x), expected, strict=True):
        torch.testing.assert_close(one, other)


def test_a_normalization_by_the_statistics_of_a_call_stays() -> None:
    net, x = (
        nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4, track_running_stats=False)).eval(),
        torch.randn(2, 4, 5, 5),
    )
    program = torch.export.export(net, (x,)).run_decompositions()
    expected = program.module()(x)
    change_weights(program)
    torch.testing.assert_close(program.module()(x), expected)
