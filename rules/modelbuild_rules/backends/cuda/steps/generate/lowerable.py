"""Ask Inductor which nodes of a partition it cannot compile for the delegate. It lowers all nodes, and compiles
nothing.

Uses private parts of torch; target_gpu.py lists them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any
from unittest.mock import patch

from torch._subclasses.fake_tensor import FakeTensor

from modelbuild_rules.backend_api.steps.nodes import computing
from modelbuild_rules.backends.cuda.steps.generate.generate import generate
from modelbuild_rules.backends.cuda.steps.generate.lowerings import products
from modelbuild_rules.backends.cuda.steps.generate.missing_kernels import marked, nodes_without_kernels
from modelbuild_rules.backends.cuda.steps.generate.no_gpu import no_gpu

NO_LOWERING = "AOTInductor can't compile it for the CUDA delegate"


class _Answered(Exception):
    """Raised instead of generating code."""


def refused(program: Any, specs: Any, reason: str) -> dict[str, str]:
    """Return the nodes of a partition (an edge ExportedProgram, which is unchanged) for which the delegate would need a
    kernel that it lacks, with `reason`, or else the node that Inductor fails to lower; by name. Raises MemoryError
    and OSError for what this machine lacks."""
    from executorch.backends.cuda.cuda_backend import CudaBackend
    from torch._inductor.exc import InductorError
    from torch._inductor.graph import GraphLowering

    _forget_sizes(program)
    names = [node.name for _, node in computing(program.graph_module)]
    found: dict[str, str] = {}
    lacks: list[MemoryError | OSError] = []
    run_node = GraphLowering.run_node

    def run(graph: Any, node: Any) -> Any:
        try:
            return run_node(graph, node)
        except Exception as error:
            # Inductor raises another exception in place of a lowering's own.
            if isinstance(error.__context__, (MemoryError, OSError)):
                lacks.append(error.__context__)
            else:
                found.update((names[index], NO_LOWERING) for index in marked([node]))
            raise

    def stop(graph: Any) -> Any:
        graph.init_wrapper_code()
        missing = nodes_without_kernels(graph, CudaBackend.get_supported_fallback_kernels())
        found.update((names[index], reason) for index in missing)
        raise _Answered

    with (
        no_gpu(),
        patch.object(GraphLowering, "run_node", run),
        patch.object(GraphLowering, "codegen_with_cpp_wrapper", stop),
        patch.object(products, "CANDIDATES", 1),
        _metas_kept(program),
    ):
        try:
            generate(_copied(program), specs, [80])
        except InductorError as error:
            if lacks:
                raise lacks[0] from error
            if not found and not isinstance(error.inner_exception, _Answered):
                raise
    return found


def _forget_sizes(program: Any) -> None:
    """Forget sizes that executorch's passes have made by running operators again; torch expects a result with each."""
    values = (node.meta.get("val") for node in program.graph.nodes)
    for mode in {value.fake_mode for value in values if isinstance(value, FakeTensor)}:
        if mode.shape_env is not None:
            mode.shape_env.pending_fresh_unbacked_symbols.clear()


def _copied(program: Any) -> Any:
    """Return a copy of a program that has the same tensors."""
    tensors = [*program.state_dict.values(), *program.constants.values()]
    return deepcopy(program, {id(tensor): tensor for tensor in tensors})


@contextmanager
def _metas_kept(program: Any) -> Iterator[None]:
    metas = [(node, dict(node.meta)) for node in program.graph.nodes]
    try:
        yield
    finally:
        for node, meta in metas:
            node.meta.clear()
            node.meta.update(meta)
