"""Build a TensorRT engine for a partition, without a GPU.

TRTInterpreter.run also loads the built engine, which needs a GPU, so this module calls its two inner steps instead.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram

from modelbuild.step import Progress, StepError, ignore_progress
from modelbuild_rules.backends.tensorrt.steps.engine import quantization
from modelbuild_rules.backends.tensorrt.steps.engine.lowering import lowered
from modelbuild_rules.backends.tensorrt.steps.engine.plan import order_bindings
from modelbuild_rules.backends.tensorrt.steps.engine.progress import progress_monitor
from modelbuild_rules.backends.tensorrt.steps.engine.settings import capability_setter, compilation_settings
from modelbuild_rules.backends.tensorrt.steps.engine.torch_tensorrt_private import import_torch_tensorrt

PROFILES = "tensorrt_profiles"
"""The key in nodes' meta of an input's shapes (see `shapes_of` in engine/profiles.py)."""

INNER_PROFILES = "tensorrt_inner_profiles"
"""The same key for a partition's other tensors, to build parts of the partition; it is not stored."""


# torch_tensorrt's name of a layer, in TensorRT's messages: [TOPK]-[aten_ops.topk.default]-[topk_1].
_LAYER = re.compile(r"\[aten_ops\.(\w+)\.(\w+)\]")


@dataclass(frozen=True, slots=True)
class Engine:
    """A serialized engine (a buffer), its bindings in the order of the partition's inputs and outputs, and the
    floating-point and 8-bit types that its layers compute in: "tf32" is float32 with products in TF32."""

    plan: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    precisions: tuple[str, ...]


class ConversionError(StepError):
    """TensorRT cannot build the layers of an ATen operator, `target`."""

    def __init__(self, target: Any, why: str) -> None:
        super().__init__(f"TensorRT can't convert {target} of the partition: {why}")
        self.target = target


def build(program: ExportedProgram, attributes: Mapping[str, Any], progress: Progress = ignore_progress) -> Engine:
    """Build an engine. Raises StepError with TensorRT's message on failure."""
    torch_tensorrt = import_torch_tensorrt(attributes["flavour"])
    from torch_tensorrt.dynamo.conversion._TRTInterpreter import trt

    quantization.register()
    settings = compilation_settings(attributes)
    builds_for = capability_setter(attributes["flavour"], attributes["compute_capabilities"], trt)
    metas = {node.name: node.meta for node in program.graph.nodes if node.op == "placeholder"}
    shapes = [metas[name].get(PROFILES) for name in program.graph_signature.user_inputs]
    module = lowered(program, settings, attributes["precision"])
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    results = next(iter(reversed(module.graph.nodes))).args[0]
    specs = [_input(torch_tensorrt, node.meta["val"], each) for node, each in zip(inputs, shapes, strict=True)]
    errors = _ErrorLog()
    progress("converting to TensorRT")
    with errors:
        interpreter = _interpreter(module, specs, settings)
        try:
            interpreter._construct_trt_network_def()
        except Exception as error:  # converters raise exceptions of many types
            why = errors.text or str(error).partition("\n")[0]
            raise ConversionError(_operator_at_fault(errors.text) or interpreter._cur_node.target, why) from error
        config = interpreter._populate_trt_builder_config()
        builds_for(config)
        config.progress_monitor = progress_monitor(trt, progress)
        plan = interpreter.builder.build_serialized_network(interpreter.ctx.net, config)
    if plan is None:
        if (operator := _operator_at_fault(errors.text)) is not None:
            raise ConversionError(operator, errors.text)
        raise StepError(f"TensorRT can't build the engine: {errors.text or 'it logged no reason'}")
    if interpreter.ctx.requires_output_allocator or interpreter._aliased_io:
        raise StepError("the engine has results of unknown size, or results that share memory with inputs")
    names = tuple(interpreter._input_names), tuple(interpreter._output_names)
    if [len(found) for found in names] != [len(program.graph_signature.user_inputs), len(results)]:
        raise StepError(f"TensorRT made an engine with bindings {names[0]} to {names[1]}")
    if attributes["flavour"] == "rtx":
        order_bindings(plan, (*names[0], *names[1]))
    return Engine(plan, *names, _precisions(interpreter.ctx.net, config, trt))


def _precisions(network: Any, config: Any, trt: Any) -> tuple[str, ...]:
    names = {
        trt.float16: "float16",
        trt.bfloat16: "bfloat16",
        trt.float32: "tf32" if config.get_flag(trt.BuilderFlag.TF32) else "float32",
        trt.int8: "int8",
        trt.fp8: "float8",
    }
    layers = [network.get_layer(number) for number in range(network.num_layers)]
    tensors = [each.get_output(place) for each in layers for place in range(each.num_outputs)]
    return tuple(sorted({names[each.dtype] for each in tensors if each.dtype in names}))


def _operator_at_fault(errors: str) -> Any:
    """Return the ATen operator whose layer TensorRT's messages name; None if they name none. TensorRT may find a fault
    only when later operators are converted."""
    named = _LAYER.search(errors)
    return getattr(getattr(torch.ops.aten, named[1], None), named[2], None) if named is not None else None


def _input(torch_tensorrt: Any, value: torch.Tensor, profiles: Sequence[Any] | None) -> Any:
    if profiles is None:
        return torch_tensorrt.Input(shape=tuple(value.shape), dtype=value.dtype)
    tables = [
        dict(zip(("min_shape", "opt_shape", "max_shape"), map(tuple, shapes), strict=True)) for shapes in profiles
    ]
    if len(tables) == 1:
        return torch_tensorrt.Input(**tables[0], dtype=value.dtype)
    return torch_tensorrt.Input(profiles=tables, dtype=value.dtype)


def _interpreter(module: torch.fx.GraphModule, specs: Sequence[Any], settings: Any) -> Any:
    """Return torch_tensorrt's interpreter of a graph, which returns no tensor of the network under two names."""
    from torch_tensorrt.dynamo.conversion._conversion import infer_module_output_dtypes
    from torch_tensorrt.dynamo.conversion._TRTInterpreter import TRTInterpreter, trt

    class Interpreter(TRTInterpreter):
        def output(self, target: str, args: Any, kwargs: Any) -> Any:
            distinct: list[Any] = []
            for result in args[0]:
                # Converters of copies return the tensor that they are given.
                same = isinstance(result, trt.ITensor) and any(result is other for other in distinct)
                distinct.append(self.ctx.net.add_identity(result).get_output(0) if same else result)
            return super().output(target, (tuple(distinct),), kwargs)

    return Interpreter(module, specs, output_dtypes=infer_module_output_dtypes(module), compilation_settings=settings)


class _ErrorLog(logging.Handler):
    """Context manager that collects the errors that TensorRT logs, and hides its log."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._lines: list[str] = []
        self._logger = logging.getLogger("torch_tensorrt [TensorRT Conversion Context]")

    def __enter__(self) -> _ErrorLog:
        self._logger.addHandler(self)
        self._logger.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = True

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if "catchCudaError" not in line:  # errors of the missing GPU
            self._lines.append(line)

    @property
    def text(self) -> str:
        return "; ".join(self._lines)
