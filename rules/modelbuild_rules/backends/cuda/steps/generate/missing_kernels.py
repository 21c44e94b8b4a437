"""Find operators for which a library would call a kernel that the CUDA delegate lacks."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from modelbuild_rules.backend_api.steps.nodes import OPERATOR, computing, op_name, operator_reference


def mark_nodes(program: Any) -> None:
    """Store each node's index and operator as its stack trace, which torch copies to all nodes made from it. Forget the
    nodes of earlier programs that it was made from: torch copies the whole chain whenever it traces a node."""
    for index, (_, node) in enumerate(computing(program.graph_module)):
        node.meta.pop("from_node", None)
        node.meta["stack_trace"] = operator_reference(index, op_name(node))


def missing_kernels(graph: Any, supported: Collection[str]) -> str:
    """Return a message about the operators that a lowered graph (Inductor's GraphLowering) leaves to libtorch, with the
    `exclude_ops` that avoid them; '' if there are no such operators."""
    missing = list(dict.fromkeys(_missing(graph, supported)))
    if not missing:
        return ""
    shown = ", ".join(kernel + (f" ({'; '.join(places)})" if places else "") for kernel, places in missing)
    found = (OPERATOR.fullmatch(place) for _, places in missing for place in places)
    operators = json.dumps(sorted({each["op"] for each in found if each}))
    return (
        f"the CUDA delegate has no kernel for {shown}; expected exclude_ops = {operators} in the stack's cuda backend,"
        " which leaves them to the next backend"
    )


def nodes_without_kernels(graph: Any, supported: Collection[str]) -> set[int]:
    """Return the indices, as in `mark_nodes`, of the nodes that a lowered graph leaves to libtorch."""
    found = (OPERATOR.fullmatch(place) for _, places in _missing(graph, supported) for place in places)
    return {int(each["index"]) for each in found if each}


def marked(nodes: Iterable[Any]) -> set[int]:
    """Return the indices, as in `mark_nodes`, of the nodes that became others."""
    found = (OPERATOR.fullmatch(node.meta.get("stack_trace") or "") for node in nodes)
    return {int(each["index"]) for each in found if each}


def _missing(graph: Any, supported: Collection[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the operators without a kernel, with the places of the nodes that need it."""
    from torch._inductor import ir

    for operation in graph.operations:
        if isinstance(operation, ir.ScatterFallback | ir.IndexPutFallback):
            yield str(operation.op_overload), _places(operation)
        elif isinstance(operation, ir.FallbackKernel | ir.ExternKernelOut | ir.ExternKernelAlloc):
            kernel = operation.try_get_kernel_name() or operation.cpp_kernel_name
            if kernel not in supported and kernel not in PROVIDED:
                yield _operator(operation, kernel), _places(operation)


def _operator(operation: Any, kernel: str | None) -> str:
    overload = getattr(operation, "op_overload", None)
    return str(overload) if overload is not None else str(kernel)


def _places(operation: Any) -> tuple[str, ...]:
    """Return the places of the nodes that became an operation: the nodes with its operator, or else all nodes."""
    traces = {node.meta.get("stack_trace") or "" for node in operation.origins}
    found = [each for each in map(OPERATOR.fullmatch, sorted(traces)) if each]
    operator = str(getattr(operation, "op_overload", "")).replace(
        "_.", "."
    )  # it may be the form that changes its input
    same = [each for each in found if each["op"] == operator]
    return tuple(each[0] for each in same or found)


PROVIDED = frozenset(
    f"aoti_torch_{name}"
    for name in [
        "_reinterpret_tensor",
        "assign_tensors_out",
        "check",
        "clone",
        "clone_preserve_strides",
        "copy_",
        "create_cuda_guard",
        "create_cuda_stream_guard",
        "create_tensor_from_blob",
        "create_tensor_from_blob_v2",
        "cuda__weight_int4pack_mm",
        "cuda_guard_set_index",
        "cuda_int4_plain_mm",
        "cuda_int5_plain_mm",
        "cuda_int6_plain_mm",
        "cuda_int8_plain_mm",
        "cuda_rand",
        "cuda_randint_low_out",
        "cuda_sort_stable",
        "delete_cuda_guard",
        "delete_cuda_stream_guard",
        "delete_tensor_object",
        "device_type_cpu",
        "device_type_cuda",
        "dtype_bfloat16",
        "dtype_bool",
        "dtype_float16",
        "dtype_float32",
        "dtype_int16",
        "dtype_int32",
        "dtype_int64",
        "dtype_int8",
        "dtype_uint8",
        "empty_strided",
        "get_current_cuda_stream",
        "get_data_ptr",
        "get_device_index",
        "get_device_type",
        "get_dim",
        "get_dtype",
        "get_numel",
        "get_sizes",
        "get_storage_offset",
        "get_storage_size",
        "get_strides",
        "grad_mode_is_enabled",
        "grad_mode_set_enabled",
        "item_bool",
        "layout_strided",
        "new_tensor_handle",
        "warn",
    ]
)
"""Exports of libaoti_cuda_shims.so of torch-tensorrt-executorch-runtime 0.1.0 (executorch 1.4.1) for libraries."""
