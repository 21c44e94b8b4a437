"""The steps of a quantized_model: operators, weights, ranges, dimensions and errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.rules.quantization.conftest import table

NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.head = nn.Linear(4, 32)
        self.last = nn.Linear(32, 3)

    def forward(self, x):
        return self.last(self.head(self.body(x).mean((2, 3))))
"""
IMAGE = {"name": "x", "shape": [1, 1, 6, 6], "dtype": "float32", "range": None}
SAMPLES = [{"x": np.random.default_rng(seed).uniform(-1, 1, (1, 1, 6, 6)).astype(np.float32)} for seed in range(4)]
QUANTIZE, DEQUANTIZE = (
    f"quantized_decomposed.{name}.default" for name in ("quantize_per_tensor", "dequantize_per_channel")
)


def difference(made: Any) -> float:
    """Return the greatest difference of the quantized program's outputs from the model's, relative to the greatest."""
    expected, found = (
        torch.cat([program.module()(torch.from_numpy(each["x"])) for each in SAMPLES])
        for program in (made.before.program(), made.program())
    )
    return float((found - expected).abs().max() / expected.abs().max())


def layers(made: Any) -> dict[str, bool]:
    """Return whether each layer is quantized, by the layer's name in the float program."""
    program = made.program()
    return {
        node.name: "dequantize" in str(getattr(node.args[1], "target", ""))
        for node in program.graph.nodes
        if str(node.target) in ("aten.conv2d.default", "aten.linear.default")
    }


def test_static_ranges_and_weights_of_8_bits(quantize: Callable[..., Any]) -> None:
    made = quantize(NET, table(), samples=SAMPLES, inputs=(IMAGE,))
    assert layers(made) == {"conv2d": True, "linear": True, "linear_1": True}
    state = made.program().state_dict
    assert state["body.0.weight_quantized"].dtype == torch.int8
    assert state["head.weight_scale"].shape == (32,)
    assert not {"body.0.weight", "body.1.running_mean", "head.weight"} & set(state)
    assert difference(made) < 0.05


def test_dynamic_ranges_need_no_data(quantize: Callable[..., Any]) -> None:
    made = quantize(NET, table(mode="dynamic"), inputs=(IMAGE,))
    assert layers(made) == {"conv2d": False, "linear": True, "linear_1": True}
    assert "quantized_decomposed.choose_qparams.tensor" in made.operators()
    assert difference(made) < 0.02


@pytest.mark.parametrize("group", [None, 32])
def test_weights_of_4_bits(quantize: Callable[..., Any], group: int | None) -> None:
    rest = table(mode="dynamic", weights="int4", group_size=group, modules=["last"])
    made = quantize(NET, rest, inputs=(IMAGE,))
    assert layers(made) == {"conv2d": False, "linear": False, "linear_1": True}
    state = made.program().state_dict.values()
    (weight,) = [each for each in state if each.dtype == torch.int8 and each.shape == (3, 32)]
    assert weight.min() >= -8
    assert weight.max() <= 7
    assert difference(made) < 0.2


def test_the_first_table_that_takes_an_operator_decides(quantize: Callable[..., Any]) -> None:
    first = table(operators=["aten.conv2d.default"], observer="min_max")
    made = quantize(NET, first, table(mode="dynamic"), samples=SAMPLES, inputs=(IMAGE,))
    assert layers(made) == {"conv2d": True, "linear": True, "linear_1": True}
    assert made.operators().count("quantized_decomposed.choose_qparams.tensor") == 2
    assert difference(made) < 0.05


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"exclude": ["head"]}, {"conv2d": True, "linear": False, "linear_1": True}),
        ({"modules": ["body", "last"]}, {"conv2d": True, "linear": False, "linear_1": True}),
        ({"modules": ["body"], "exclude": ["body.1"]}, {"conv2d": True, "linear": False, "linear_1": False}),
        ({"operators": ["aten.linear.default"]}, {"conv2d": False, "linear": True, "linear_1": True}),
    ],
)
def test_operators_and_submodules_can_stay_in_floating_point(
    quantize: Callable[..., Any], attributes: Any, expected: Any
) -> None:
    assert layers(quantize(NET, table(**attributes), samples=SAMPLES, inputs=(IMAGE,))) == expected


def test_integers_stay_integers(quantize: Callable[..., Any]) -> None:
    """executorch's quantizer for XNNPACK makes float32 of a number that is added to integers, and observes integers
    that are concatenated."""
    source = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, x):
        y = self.layer(x) * 2 + 1
        best = torch.cat([y.argmax(-1) + 4, y.argmin(-1)])
        return torch.cat([y, x], dim=-1).index_select(1, best % 4)
"""
    samples = [{"x": np.ones((2, 3), np.float32)}]
    made = quantize(source, table(), samples=samples)
    nodes = {node.name: node for node in made.program().graph.nodes}
    assert nodes["cat"].meta["val"].dtype == torch.int64
    assert "dequantize" in nodes["cat_1"].args[0][0].name
    only = quantize(source, table(operators=["aten.linear.default"]), samples=samples)
    assert "dequantize" not in str(next(n for n in only.program().graph.nodes if n.name == "cat_1").args[0][1])
    assert "number_0" not in only.program().state_dict


def test_a_layer_that_runs_several_times_is_quantized_each_time(quantize: Callable[..., Any]) -> None:
    source = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.layer = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.table = nn.Embedding(4, 4)

    def forward(self, x):
        small = self.layer(x[:, :, ::2, ::2]).mean((2, 3))
        return F.linear(self.layer(9 * x).mean((2, 3)) + small, self.table.weight) + self.table(torch.tensor(1))
"""
    made = quantize(source, table(operators=["aten.conv2d.default"]), samples=SAMPLES, inputs=(IMAGE,))
    assert layers(made) == {"conv2d": True, "conv2d_1": True, "linear": False}
    convolutions = [node for node in made.program().graph.nodes if str(node.target) == "aten.conv2d.default"]
    one, other = ([each.args[1].args[0].name, each.args[2].name] for each in convolutions)
    assert one[0] == other[0]
    # XNNPACK's biases are integers with the scale of the input, which differs.
    assert one[1] != other[1]
    state = made.program().state_dict
    assert sorted(name for name in state if "table" in name) == ["table.weight"]
    assert difference(made) < 0.05


def test_ranges_are_those_of_the_data(quantize: Callable[..., Any]) -> None:
    twice = [{"x": 2 * each["x"]} for each in SAMPLES]
    scales = []
    for samples in (SAMPLES, twice):
        made = quantize(NET, table(observer="min_max"), samples=samples, inputs=(IMAGE,))
        (first, *_) = [node for node in made.program().graph.nodes if str(node.target) == QUANTIZE]
        values = np.concatenate([each["x"].ravel() for each in samples])
        assert first.args[1] == pytest.approx((values.max() - values.min()) / 255)
        scales.append(first.args[1])
    assert scales[1] == pytest.approx(2 * scales[0])


def test_how_weights_are_scaled_changes_no_observed_range(quantize: Callable[..., Any]) -> None:
    one, other = (quantize(NET, table(per_channel=each), samples=SAMPLES, inputs=(IMAGE,)) for each in (True, False))
    assert one.bytes()["observed.safetensors"] == other.bytes()["observed.safetensors"]
    assert DEQUANTIZE in one.operators()
    assert DEQUANTIZE not in other.operators()
    assert difference(other) < 0.1


def test_only_activations_are_observed(quantize: Callable[..., Any]) -> None:
    ranges = quantize(NET, table(observer="min_max"), samples=SAMPLES, inputs=(IMAGE,)).ranges()
    highest = [float(each) for name, each in ranges.items() if name.endswith(".max_val")]
    assert len(highest) == 5  # the image, the three layers' results, and the mean
    assert all(each.dim() == 0 for name, each in ranges.items() if name.endswith("_val"))


def test_equal_declarations_have_equal_bytes(quantize: Callable[..., Any]) -> None:
    one, other = (quantize(NET, table(), samples=SAMPLES, inputs=(IMAGE,)).bytes() for _ in range(2))
    assert one == other


def test_dynamic_dimensions_stay_dynamic_and_related(quantize: Callable[..., Any]) -> None:
    source = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x, y):
        return self.layer(x) + self.layer(y.t()).reshape(-1, 2, 2).sum(1)
"""
    inputs = (
        {"name": "x", "shape": ["n", 4], "dtype": "float32", "range": None},
        {"name": "y", "shape": [4, "m"], "dtype": "float32", "range": None},
    )
    dynamic = {
        "n": {"min": 1, "max": 8, "example": 3},
        "m": {"min": 2, "max": 16, "example": None, "terms": {"n": 2}, "plus": 0},
    }
    made = quantize(source, table(mode="dynamic"), inputs=inputs, dynamic=dynamic)
    before, after = (each.program().range_constraints for each in (made.before, made))
    assert [str(each) for each in after.values()] == [str(each) for each in before.values()]
    module = made.program().module()
    for size in (1, 2, 8):
        assert module(torch.rand(size, 4), torch.rand(4, 2 * size)).shape == (size, 2)


def test_state_keeps_its_initial_value_and_each_sample_begins_with_it(quantize: Callable[..., Any]) -> None:
    source = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("total", torch.zeros(2, 3))

    def forward(self, x):
        self.total.add_(x)
        return self.layer(self.total)
"""
    samples = [{"x": np.full((2, 3), number, np.float32)} for number in (1, 2, 3)]
    made = quantize(source, table(observer="min_max"), samples=samples)
    assert not made.program().state_dict["total"].any()
    highest = [float(each) for name, each in made.ranges().items() if name.endswith(".max_val")]
    assert highest[0] == 3  # not 6, the sum of all samples


def test_places_are_those_of_the_model(quantize: Callable[..., Any]) -> None:
    made = quantize(NET, table(), samples=SAMPLES, inputs=(IMAGE,))
    debug = json.loads((made.folder / "debug.json").read_text())
    assert debug["linear_1"]["module"] == "last"
    assert debug["conv2d"]["source"].startswith("m/net.py:")


@pytest.mark.parametrize(
    ("quantizer", "message"),
    [
        (
            table(exclude=["bodi"]),
            "exclude: the model has no submodule 'bodi'; did you mean 'body'?",
        ),
        (
            table(modules=["last"], operators=["aten.conv2d.default"]),
            "the recipe quantizes no operator of the model; expected a recipe that takes some operators",
        ),
        (
            table(mode="dynamic", weights="int4", group_size=32),
            "the linear layer 'head' can't be quantized: its 4 input channels are no multiple of group_size 32",
        ),
    ],
)
def test_recipes_that_do_not_fit_the_model(refusal: Callable[..., str], quantizer: Any, message: str) -> None:
    samples = SAMPLES if quantizer["attributes"]["mode"] == "static" else ()
    assert refusal(NET, quantizer, samples=samples, inputs=(IMAGE,)) == message


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ({"y": SAMPLES[0]["x"]}, "sample 1: no array for the input 'x'; it has y"),
        ({"x": SAMPLES[0]["x"].astype(np.float64)}, "sample 1: input 'x': expected float32, got float64"),
        ({"x": SAMPLES[0]["x"][:, :, :5]}, "sample 1: input 'x': expected shape [1, 1, 6, 6], got [1, 1, 5, 6]"),
    ],
)
def test_samples_that_do_not_fit_the_model(refusal: Callable[..., str], sample: Any, message: str) -> None:
    assert refusal(NET, table(), samples=[sample], inputs=(IMAGE,)) == message
