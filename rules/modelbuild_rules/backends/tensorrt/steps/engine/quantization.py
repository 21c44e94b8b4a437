"""Quantized values in TensorRT: quantize and dequantize nodes become its Q and DQ layers, which its builder fuses into
the convolutions and products between them.

TensorRT's layers have no zero points. An 8-bit value never leaves a partition. Values are int8, by PyTorch's operators,
or float8_e4m3fn, by torchao's, whose scales are tensors: one number, or a column for the rows of a weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeGuard

import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
import torchao  # noqa: F401  (registers operators)
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram

from modelbuild_rules.backend_api.steps.quantized import QUANTIZED, of_weights, quantized

_OPS = torch.ops.quantized_decomposed
_FLOAT8 = (
    torch.ops.torchao.quantize_affine_float8_non_decomposed.default,
    torch.ops.torchao.dequantize_affine_float8_non_decomposed.default,
)
QUANTIZE = (_OPS.quantize_per_tensor.default, _OPS.quantize_per_channel.default, _FLOAT8[0])
DEQUANTIZE = (_OPS.dequantize_per_tensor.default, _OPS.dequantize_per_channel.default, _FLOAT8[1])
_PER_CHANNEL = (QUANTIZE[1], DEQUANTIZE[1])

ALONE = "its 8-bit values would leave the partition"
_NAME = "modelbuild_quantized"


def is_quantization(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and node.target in (*QUANTIZE, *DEQUANTIZE)


def problem(node: torch.fx.Node, constant: Callable[[torch.fx.Node], torch.Tensor | None]) -> str:
    """Return why a quantize or dequantize node has no TensorRT layer; '' if it has a layer. `constant` returns the
    value of a constant node."""
    if node.target in _FLOAT8:
        return _float8_problem(node, constant)
    (scale, zero), (least, most, dtype) = node.args[1:3], node.args[-3:]
    if node.kwargs.get("out_dtype") not in (None, torch.float32):
        return "TensorRT dequantizes to float32"
    values = [constant(each) if isinstance(each, torch.fx.Node) else torch.tensor(each) for each in (scale, zero)]
    if any(each is None for each in values):
        return "TensorRT's scales are constants"
    if _is_known(values[1]) and bool(values[1].any()):
        return "TensorRT has no zero points"
    lowest = (-128,) if node.target in QUANTIZE else (-128, -127)
    if dtype is not torch.int8 or least not in lowest or most != 127:
        return "TensorRT quantizes to int8 from -128 to 127"
    return ""


def _float8_problem(node: torch.fx.Node, constant: Callable[[torch.fx.Node], torch.Tensor | None]) -> str:
    given, scale = node.args[:2]
    rest = (*node.args[2:], *node.kwargs.values())
    if rest not in ((), (torch.float8_e4m3fn if node.target is QUANTIZE[2] else torch.float32,)):
        return "TensorRT quantizes float32 to float8_e4m3fn"
    assert isinstance(given, torch.fx.Node)
    assert isinstance(scale, torch.fx.Node)
    value = constant(scale)
    if value is None:
        return "TensorRT's scales are constants"
    if value.numel() > 1 and value.shape != (given.meta["val"].shape[0], *[1] * (given.meta["val"].dim() - 1)):
        return "TensorRT's scales are for all values, or for each row"
    return ""


def _is_known(value: torch.Tensor | None) -> TypeGuard[torch.Tensor]:
    """Return whether a tensor has values. Tensors of a program that is only checked may have none."""
    return value is not None and not isinstance(value, FakeTensor)


def constants_of(
    program: ExportedProgram, stored: Mapping[str, torch.Tensor]
) -> Callable[[torch.fx.Node], torch.Tensor | None]:
    """Return a function that returns the value of a constant node of a program or of its copy. executorch's program for
    partitioners has no values, so `stored` has the values by name."""
    signature = program.graph_signature
    names = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    known = {**program.constants, **program.state_dict, **stored}
    changed = set(signature.buffers_to_mutate.values())

    def constant(node: torch.fx.Node) -> torch.Tensor | None:
        name = names.get(node.name)
        return None if name is None or name in changed else known.get(name)

    return constant


def left_whole(graph: torch.fx.Graph, refused: Mapping[str, str]) -> dict[str, str]:
    """Return the nodes that must be refused together with other nodes, with the reason: an operator on quantized values
    goes with its dequantize nodes and, if refused, with its quantize nodes; quantize and dequantize nodes go with each
    other."""
    operators = quantized(graph)
    weights = of_weights(graph)
    found = dict(refused)
    changed = True
    while changed:
        changed = False
        for node in graph.nodes:
            if node.name in found or node.op != "call_function":
                continue
            why = _beside(node, operators, weights, found)
            if why:
                found[node.name] = why
                changed = True
    return {name: why for name, why in found.items() if name not in refused}


def _beside(
    node: torch.fx.Node, operators: set[str], weights: Mapping[torch.fx.Node, torch.fx.Node], refused: Mapping[str, str]
) -> str:
    before = [weights.get(each, each) for each in node.all_input_nodes]
    if node.target in QUANTIZE:
        given = [each for each in before if each.name in operators]
        return QUANTIZED if _any([*given, *node.users], refused) else ""
    if node.target in DEQUANTIZE:
        given = [each for each in before if each.op == "call_function"]
        users = [user for user in _users(node, weights) if user.name in operators]
        return QUANTIZED if _any([*given, *users], refused) else ""
    if node.name not in operators:
        return ""
    if any(_is_other_quantization(each) for each in before):
        return QUANTIZED
    given = [each for each in before if is_quantization(each) or each.name in operators]
    return QUANTIZED if _any(given, refused) else ""


def _users(node: torch.fx.Node, weights: Mapping[torch.fx.Node, torch.fx.Node]) -> Iterable[torch.fx.Node]:
    """Yield the users of a node, and of the nodes that move its values."""
    for user in node.users:
        if user in weights:
            yield from _users(user, weights)
        else:
            yield user


def _any(nodes: Iterable[torch.fx.Node], refused: Mapping[str, str]) -> bool:
    return any(node.name in refused for node in nodes)


def _is_other_quantization(node: torch.fx.Node) -> bool:
    """Return whether a node is another operator of torchao, such as ranges that each call computes."""
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target.namespace == "torchao" and target not in _FLOAT8


def apart(graph: torch.fx.Graph, partitions: Iterable[Iterable[torch.fx.Node]]) -> dict[str, str]:
    """Return the quantize and dequantize nodes of the ATen graph whose partners are not in their partition, with the
    reason."""
    owners = {node.name: number for number, nodes in enumerate(partitions) for node in nodes}
    found = {}
    for node in graph.nodes:
        if node.op == "call_function" and node.target in QUANTIZE and node.name in owners:
            pair = [node, *node.users]
            if len({owners.get(each.name) for each in pair}) > 1:
                found.update({each.name: ALONE for each in pair})
    return found


def register() -> None:
    """Register converters of the operators at torch_tensorrt, whose own converters are for another library's operators,
    and keep integers of constant weights from being expanded while it lowers a program."""
    from torch_tensorrt.dynamo.conversion import dynamo_tensorrt_converter
    from torch_tensorrt.dynamo.lowering import constant_fold_exclusions

    if getattr(register, "done", False):
        return
    register.done = True  # type: ignore[attr-defined]
    for operator in QUANTIZE:
        dynamo_tensorrt_converter(operator, supports_dynamic_shapes=True)(_quantize)
    for operator in DEQUANTIZE:
        dynamo_tensorrt_converter(operator, supports_dynamic_shapes=True)(_dequantize)

    @constant_fold_exclusions.register_constant_fold_exclusion_rule(_NAME)
    def rule(node: torch.fx.Node) -> Iterable[torch.fx.Node]:
        return [node] if is_quantization(node) else []


def _quantize(ctx: Any, target: Any, args: Any, kwargs: Any, name: str) -> Any:
    from torch_tensorrt.dynamo.conversion._TRTInterpreter import trt
    from torch_tensorrt.dynamo.conversion.converter_utils import get_trt_tensor

    given = get_trt_tensor(ctx, args[0], f"{name}_input")
    dtype = trt.DataType.FP8 if target in _FLOAT8 else trt.int8
    layer = ctx.net.add_quantize(given, _scale(ctx, args[1], name), dtype)
    return _named(layer, target, args, name)


def _dequantize(ctx: Any, target: Any, args: Any, kwargs: Any, name: str) -> Any:
    from torch_tensorrt.dynamo.conversion._TRTInterpreter import trt
    from torch_tensorrt.dynamo.conversion.converter_utils import get_trt_tensor

    dtype = torch.float8_e4m3fn if target in _FLOAT8 else torch.int8
    given = get_trt_tensor(ctx, args[0], f"{name}_input", dtype=dtype)
    layer = ctx.net.add_dequantize(given, _scale(ctx, args[1], name), trt.float32)
    return _named(layer, target, args, name)


def _scale(ctx: Any, scale: Any, name: str) -> Any:
    """Return a constant of one dimension. TensorRT-RTX 1.6.1 cannot build a convolution whose scale has no dimension
    (MyelinCheckException in cudnn_impl.cpp)."""
    from torch_tensorrt.dynamo.conversion.converter_utils import get_trt_tensor

    return get_trt_tensor(ctx, torch.as_tensor(scale, dtype=torch.float32).reshape(-1), f"{name}_scale")


def _named(layer: Any, target: Any, args: Any, name: str) -> Any:
    from torch_tensorrt.dynamo._SourceIR import SourceIR
    from torch_tensorrt.dynamo.conversion.converter_utils import set_layer_name

    if target in _PER_CHANNEL:
        layer.axis = args[3]
    elif target in _FLOAT8 and torch.as_tensor(args[1]).numel() > 1:
        layer.axis = 0
    set_layer_name(layer, target, name, SourceIR.ATEN)
    return layer.get_output(0)
