"""Estimate how long each kernel of a partition takes on its GPU, without a GPU.

A kernel takes as long as its memory or its products, whichever is longer, and the time of a launch. Memory is what
Inductor counts: each buffer once. Products are estimated as for the choice of a template (cost.py). The times of
launches, calls and copies were fitted on NVIDIA H200s by benchmarks/gpu/cuda_estimates.py; other GPUs differ by the
published numbers in device.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from modelbuild_rules.backends.cuda.steps.generate.missing_kernels import marked
from modelbuild_rules.backends.cuda.steps.kernels.cost import RATES
from modelbuild_rules.backends.cuda.steps.kernels.device import Gpu

if TYPE_CHECKING:
    from modelbuild_rules.backend_api.documents import Estimate, KernelEstimate

LAUNCH = 1.8e-6
"""Seconds of a kernel that does nothing."""

CALL = 40e-6
"""Seconds of a call of a partition besides its kernels and copies."""

SHARE = 0.7
"""The share of the memory's bandwidth that kernels reach."""

CACHED = 2.5
"""The bandwidth of the cache, as a multiple of the memory's."""

PAGEABLE = 0.09
"""The share of the link's bandwidth that copies from and to a program's own host memory reach."""

ATTENTION = 0.4
"""The share of the products of a matrix product that the kernel of attention reaches."""

BASIS = (
    "fitted on NVIDIA H200s, within a factor of 1.3 of the times of 17 programs; for other GPUs scaled by published"
    " numbers"
)


def estimate(graph: Any, cycles: Mapping[Any, float], gpu: Gpu) -> Estimate:
    """Return the estimate of a lowered graph (Inductor's GraphLowering with its scheduler).

    cycles  of the chosen templates, by the function with which the template renders its kernel
    """
    kernels: list[KernelEstimate] = []
    before: set[int] = set()
    for node in (each for group in graph.scheduler.nodes for each in _launched(group)):
        origins = [marked(each.node.get_origins()) for each in node.get_nodes() if each.node is not None]
        own = set().union(*(each - before or set(sorted(each)[-1:]) for each in origins))
        before.update(*origins)
        kernels.append(_kernel(node, own, cycles, gpu))
    return {"device": gpu.name, "basis": BASIS, "call": CALL, "link": gpu.link * PAGEABLE, "kernels": kernels}


def _launched(node: Any) -> Iterator[Any]:
    """Yield the scheduler's nodes that become kernels or other work on the GPU, of a node that may be a group."""
    from torch._inductor.ir import AssertScalar
    from torch._inductor.scheduler import GroupedSchedulerNode, NopKernelSchedulerNode

    if isinstance(node, GroupedSchedulerNode):
        for each in node.snodes:
            yield from _launched(each)
    elif not isinstance(node, NopKernelSchedulerNode) and not isinstance(node.node, AssertScalar):
        yield node


def _kernel(node: Any, own: set[int], cycles: Mapping[Any, float], gpu: Gpu) -> KernelEstimate:
    """Return a kernel's estimate. `own`: the partition's nodes that it computes. Inductor's origins of a kernel include
    the nodes before them, which other kernels compute."""
    from torch._inductor.virtualized import V

    constants = {name for each in node.get_nodes() for name in each.used_buffer_names() if name in V.graph.constants}
    moved = node.get_read_write_buffers_sizes() + sum(V.graph.constants[name].nbytes for name in constants)
    found: KernelEstimate = {"nodes": sorted(own), "bytes": int(moved)}
    products = _products(node, cycles, gpu)
    if products is not None:
        cached = CACHED if moved < gpu.cache / 2 else 1
        memory = moved / (gpu.bandwidth * SHARE * cached)
        found["seconds"] = float(f"{LAUNCH + max(memory, products):.3g}")
    return found


def _products(node: Any, cycles: Mapping[Any, float], gpu: Gpu) -> float | None:
    """Return the seconds of a kernel's products; None for a kernel of a library, which is not estimated."""
    from torch._inductor.ir import UserDefinedTritonKernel

    if (template := node.get_template_node()) is not None:
        return cycles.get(template.make_kernel_render, 0.0) / gpu.clock
    if isinstance(node.node, UserDefinedTritonKernel):
        return _attention(node.node, gpu)
    return None if node.is_extern() else 0.0


def _attention(kernel: Any, gpu: Gpu) -> float:
    """Return the seconds of the products of attention; 0 for another kernel."""
    from torch._inductor.virtualized import V

    from modelbuild_rules.backends.cuda.steps.generate.lowerings.attention import attention_kernel

    if kernel.get_kernel_and_metadata()[0].fn is not attention_kernel.fn:
        return 0.0
    queries, keys, values = (
        [V.graph.sizevars.optimization_hint(n) for n in each.get_size()] for each in kernel.inputs[:3]
    )
    batch, heads, rows, size = queries
    count = batch * heads * rows * keys[-2] * (size + values[-1])
    rates = RATES["half" if kernel.inputs[0].get_dtype().itemsize == 2 else "fp32"]
    return float(count / (rates.products * gpu.products * gpu.processors * ATTENTION * gpu.clock))
