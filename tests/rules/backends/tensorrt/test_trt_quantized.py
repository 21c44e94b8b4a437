"""Quantized operators: TensorRT takes those without zero points, with 8-bit products in its engine. Others are left
whole to the next backend, with their quantize and dequantize nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
from torch import Tensor, nn

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps import executorch_private
from modelbuild_rules.backend_api.steps.partition_files import read_partition
from modelbuild_rules.backend_api.steps.quantized import quantized as quantized_nodes
from modelbuild_rules.backends.tensorrt.steps.engine import quantization
from modelbuild_rules.backends.tensorrt.steps.engine.engine import build
from tests.rules.quantization.conftest import Quantized, run_quantization

OPS = torch.ops.quantized_decomposed


def again(x: Tensor, zero: int = 3) -> Tensor:
    """Quantize and dequantize."""
    return OPS.dequantize_per_tensor(
        OPS.quantize_per_tensor(x, 0.1, zero, -128, 127, torch.int8), 0.1, zero, -128, 127, torch.int8
    )


class Net(nn.Module):
    """A layer in floating point, one quantized with its activation, and another in floating point."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.last = nn.Linear(4, 4)
        self.register_buffer("weight", torch.randint(-127, 127, (4, 8), dtype=torch.int8))
        self.register_buffer("scales", torch.full((4,), 0.01))
        self.register_buffer("zeros", torch.zeros(4, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        weight = OPS.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8)
        x = again(torch.sigmoid(self.first(x)))
        return torch.exp(self.last(again(torch.relu(nn.functional.linear(x, weight)))))


def test_quantized_operators_are_left_whole(partition: Callable[..., Any], tmp_path: Path) -> None:
    made = partition(Net(), (torch.rand(2, 8),), tmp_path / "made", xnnpack=True)
    backends = {(node["op"], node["backend"]) for node in made.nodes}
    assert {backend for op, backend in backends if op == "aten.addmm.default"} == {"tensorrt"}
    assert {backend for op, backend in backends if op in ("aten.linear.default", "aten.relu.default")} == {"xnnpack"}
    assert {backend for op, backend in backends if "quantize" in op} == {"xnnpack"}
    assert made.why("aten.linear.default") == "it computes with quantized values"
    assert made.why("quantized_decomposed.quantize_per_tensor.default") == "TensorRT has no zero points"


def test_values_that_are_only_passed_on_stay_the_others(tmp_path: Path) -> None:
    class Tail(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.sin(again(torch.relu(again(torch.cos(x)))))

    graph = torch.export.export(Tail(), (torch.rand(2),)).graph
    assert quantized_nodes(graph) == {"relu"}


SIZE = 512
CHANNELS = 128
SOURCE = f"""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first = nn.Sequential(nn.Conv2d({CHANNELS}, {CHANNELS}, 3), nn.BatchNorm2d({CHANNELS}), nn.ReLU())
        self.second = nn.Conv2d({CHANNELS}, {SIZE}, 3)
        self.head = nn.Linear({SIZE}, {SIZE})

    def forward(self, x):
        return self.head(torch.relu(self.second(self.first(x))).mean((2, 3)))
"""
IMAGE = {"name": "x", "shape": [1, CHANNELS, 6, 6], "dtype": "float32", "range": None}
WEIGHTS = CHANNELS * CHANNELS * 9 + CHANNELS * SIZE * 9 + SIZE * SIZE


def quantize(folder: Path, **attributes: Any) -> Quantized:
    """Return a model that the quantizer for TensorRT quantized."""
    given = {"dtype": "int8", "observer": "histogram", "operators": [], "modules": [], "exclude": []} | attributes
    quantizing = "modelbuild_rules.backends.tensorrt.steps.quantizing"
    table = {"kind": "tensorrt", "quantizing": quantizing, "attributes": given}
    return run_quantization(folder, SOURCE, [table], samples(), inputs=(IMAGE,))


def samples() -> list[dict[str, Any]]:
    draw = np.random.default_rng(0)
    return [{"x": draw.uniform(-1, 1, (1, CHANNELS, 6, 6)).astype(np.float32)} for _ in range(4)]


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Quantized:
    return quantize(tmp_path_factory.mktemp("quantized"))


def test_a_recipe_for_tensorrt_quantizes_inputs_and_weights(quantized: Quantized) -> None:
    program = quantized.program()
    zeros = [node.args[2] for node in program.graph.nodes if "quantize_per_tensor" in str(node.target)]
    assert zeros == [0] * 6
    assert program.state_dict["first.0.weight_quantized"].dtype == torch.int8
    x = torch.rand(1, CHANNELS, 6, 6) * 2 - 1
    expected, found = quantized.before.program().module()(x), program.module()(x)
    assert float((found - expected).abs().max() / expected.abs().max()) < 0.05


def test_an_engine_has_weights_of_8_bits(
    quantized: Quantized, partition: Callable[..., Any], compiled: Mapping[str, Any], tmp_path: Path
) -> None:
    made = partition(quantized.program(), (torch.rand(1, CHANNELS, 6, 6),), tmp_path / "made")
    assert {node["backend"] for node in made.nodes} == {"tensorrt"}
    (part,) = made.plan
    program, _ = read_partition(made.folder / "partitions" / part["id"])
    engine = bytes(memoryview(build(program, compiled).plan))
    # Kernels' code takes less than the other three bytes of each weight.
    assert WEIGHTS < len(engine) < 2 * WEIGHTS
    assert stored(engine, "int8") == WEIGHTS
    assert products(engine) == [("int8", "int8")]


def test_half_precision_leaves_layers_of_8_bits(
    quantized: Quantized, partition: Callable[..., Any], compiled: Mapping[str, Any], tmp_path: Path
) -> None:
    made = partition(quantized.program(), (torch.rand(1, CHANNELS, 6, 6),), tmp_path / "made", {"precision": "fp16"})
    (part,) = made.plan
    program, _ = read_partition(made.folder / "partitions" / part["id"])
    engine = build(program, {**compiled, "precision": "fp16"})
    assert engine.precisions == ("float32", "int8")
    assert products(bytes(memoryview(engine.plan))) == [("int8", "int8")]


def stored(engine: bytes, dtype: str) -> int:
    """Return the bytes of an engine's constants of a type."""
    return sum(int(match[1]) for match in _CONSTANT.finditer(engine) if match[2].decode() == dtype)


def products(engine: bytes) -> list[tuple[str, str]]:
    """Return the types of the operands of each matrix product in an engine."""
    types = {match[1]: match[2].decode() for match in _TENSOR.finditer(engine)}
    found = [re.findall(rb'"([^"]+)"', match[1])[:2] for match in _PRODUCT.finditer(engine)]
    return [(types[one], types[other]) for one, other in found]


# Engines of TensorRT-RTX 1.6.1 contain a readable list of their tensors and operators.
_TENSOR = re.compile(rb'tensor=\{[^\n]* name="([^"\n]+)"[^\n]* type=(\w+) \}')
_CONSTANT = re.compile(rb"tensor=\{[^\n]*const_payload_size=(\d+)[^\n]* type=(\w+) \}")
_PRODUCT = re.compile(rb"fully_connected=\{[^\n]* input=\{([^\n]*?) ?\}")


@pytest.fixture(scope="module")
def float8(tmp_path_factory: pytest.TempPathFactory) -> Quantized:
    return quantize(tmp_path_factory.mktemp("float8"), dtype="float8_e4m3fn")


def test_linear_layers_of_float8_have_inputs_and_weights_of_8_bits(float8: Quantized) -> None:
    program = float8.program()
    state = program.state_dict
    assert state["head.weight_quantized"].dtype == torch.float8_e4m3fn
    assert {state[name].dtype for name in ("first.0.weight", "second.weight")} == {torch.float32}
    weight = float8.before.program().state_dict["head.weight"]
    scale = weight.abs().amax(1, keepdim=True) / 448
    assert torch.equal(state["head.weight_scale"], scale)
    # Numbers below the scale keep their digits, which PT2E's own operators would round to integers.
    assert torch.equal(state["head.weight_quantized"].float(), (weight / scale).to(torch.float8_e4m3fn).float())
    x = torch.rand(1, CHANNELS, 6, 6) * 2 - 1
    expected, found = float8.before.program().module()(x), program.module()(x)
    assert float((found - expected).norm() / expected.norm()) < 0.05


def test_scales_of_float8_map_the_greatest_magnitude_of_all_samples(float8: Quantized) -> None:
    class Interpreter(torch.fx.Interpreter):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            if target is torch.ops.aten.linear.default:
                magnitudes.append(args[0].abs().amax())
            return super().call_function(target, args, kwargs)

    magnitudes: list[Tensor] = []
    for sample in samples():
        Interpreter(float8.before.program().module()).run(torch.from_numpy(sample["x"]))
    assert len(magnitudes) == 4
    scale = float8.program().state_dict["head.weight_input_scale"]
    assert float(scale) == pytest.approx(float(max(magnitudes)) / 448, rel=1e-6)


def test_an_engine_multiplies_float8(
    float8: Quantized, partition: Callable[..., Any], compiled: Mapping[str, Any], tmp_path: Path
) -> None:
    made = partition(float8.program(), (torch.rand(1, CHANNELS, 6, 6),), tmp_path / "made")
    assert {node["backend"] for node in made.nodes} == {"tensorrt"}
    (part,) = made.plan
    program, _ = read_partition(made.folder / "partitions" / part["id"])
    engine = bytes(memoryview(build(program, {**compiled, "compute_capabilities": ["8.9", "12.0"]}).plan))
    assert products(engine) == [("fp8_e4m3", "fp8_e4m3")]
    assert stored(engine, "fp8_e4m3") == SIZE * SIZE
    # Why an older device is an error.
    with pytest.raises(StepError, match="HW-specific datatypes: fp8_e4m3"):
        build(program, {**compiled, "compute_capabilities": ["8.6"]})


def test_layers_that_are_left_out_stay_in_floating_point(tmp_path: Path) -> None:
    made = quantize(tmp_path, operators=["aten.linear.default"], observer="min_max")
    state = made.program().state_dict
    assert state["head.weight_quantized"].dtype == torch.int8
    assert state["second.weight"].dtype == torch.float32


def test_float8_needs_tensorrt(float8: Quantized, partition: Callable[..., Any], tmp_path: Path) -> None:
    image = (torch.rand(1, CHANNELS, 6, 6),)
    with pytest.raises(StepError) as error:
        partition(float8.program(), image, tmp_path / "made", {"exclude_ops": ["aten.addmm.default"]})
    assert str(error.value).startswith(
        f"{executorch_private.name()} has no portable kernel for torchao.quantize_affine_float8_non_decomposed.default"
    )
    assert "tensorrt: it computes with quantized values" in str(error.value)
    assert "\n" not in str(error.value)


def test_integers_do_not_leave_a_partition() -> None:
    class Pair(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.sin(again(torch.cos(x), 0))

    graph = torch.export.export(Pair(), (torch.rand(2),)).graph
    first, second = (node for node in graph.nodes if "quantize" in node.name)
    assert quantization.apart(graph, [[first], [second]]) == dict.fromkeys(
        (first.name, second.name), quantization.ALONE
    )
    assert quantization.apart(graph, [[first, second]]) == {}
