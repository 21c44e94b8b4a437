"""Generate AOTInductor's C++ source, and requests for Triton's kernels, from a partition, for a target GPU."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from modelbuild.step import Progress, StepError, ignore_progress
from modelbuild_rules.backend_api.steps.aten import aten_operator
from modelbuild_rules.backends.cuda.steps.generate.estimate import estimate
from modelbuild_rules.backends.cuda.steps.generate.missing_kernels import mark_nodes, missing_kernels
from modelbuild_rules.backends.cuda.steps.generate.requests import Requests, shared_memory
from modelbuild_rules.backends.cuda.steps.generate.target_gpu import require, target_gpu
from modelbuild_rules.backends.cuda.steps.generate.weights import Constant, Weights, move
from modelbuild_rules.backends.cuda.steps.kernels.candidates import Candidates
from modelbuild_rules.backends.cuda.steps.kernels.choice import Chooser
from modelbuild_rules.backends.cuda.steps.kernels.compiler import PRODUCTS
from modelbuild_rules.backends.cuda.steps.kernels.device import Gpu, common_gpu
from modelbuild_rules.backends.cuda.steps.kernels.request import Request
from modelbuild_rules.backends.cuda.steps.kernels.tuning import Tuning
from modelbuild_rules.backends.cuda.steps.library.wrapper import interface

if TYPE_CHECKING:
    from modelbuild_rules.backend_api.documents import Estimate

OPTIONS: Mapping[str, Any] = {
    "max_autotune": False,
    "max_autotune_gemm": True,
    "aot_inductor.emit_multi_arch_kernel": True,
    "size_asserts": False,  # they call a function that the delegate lacks for results of ExecuTorch's kernels
}


@dataclass(frozen=True, slots=True)
class Kernel:
    """A Triton kernel of a library, which is not compiled: its name in the library's source, and the request."""

    name: str
    request: Request


@dataclass
class Generated:
    """The generated parts of a library: C++ source, kernels sorted by name, and constants in the library's order; and
    an estimate of its time."""

    source: str = ""
    kernels: tuple[Kernel, ...] = ()
    constants: tuple[Constant, ...] = ()
    estimate: Estimate | None = None


def generate(
    program: Any,
    specs: Iterable[Any],
    capabilities: Iterable[int],
    precision: str = "fp32",
    tuning: Tuning | None = None,
    candidates: Candidates | None = None,
    progress: Progress = ignore_progress,
) -> Generated:
    """Generate code from a partition (an edge ExportedProgram, which is changed) for the lowest of some capabilities.
    The values of its weights are not read.

    precision   of float32 products: "fp32" or "tf32"
    tuning      earlier choices on a GPU; it records the origin of each choice
    candidates  receives the candidates of other choices, compiled

    Raises StepError for an operator for which the CUDA delegate has no kernel, naming its node, and for an unknown
    version of torch. Inductor keeps state, so each process can make only one call.
    """
    from executorch.backends.cuda.cuda_backend import CudaBackend

    gpu = common_gpu(capabilities)
    chooser = Chooser(gpu, tuning or Tuning(), candidates, progress)
    launched = {"launched": candidates.launched} if candidates else {}
    made = Generated()
    requested: dict[str, Request] = {}
    weights: list[Weights] = []

    def take(graph: Any, wrapper: str, definitions: str, serialized: Any, **_: Any) -> list[str]:
        missing = missing_kernels(graph, CudaBackend.get_supported_fallback_kernels())
        if missing:
            raise StepError(missing)
        names = sorted(graph.wrapper_code._kernel_name_to_body)
        made.kernels = tuple(Kernel(name, requested[name]) for name in names)
        made.source = _sizes_declared(_quiet(_without_interface(f"{wrapper}\n{definitions}")), made.kernels)
        made.estimate = estimate(graph, chooser.cycles, gpu)
        originals = graph.allocated_constant_name
        made.constants = tuple(
            weights[0].constant(name, originals[name], tensor)
            for name, tensor in graph.constants.items()
            if name not in graph.folded_constants
        )
        return ["taken"]

    progress("generating code")
    with TemporaryDirectory() as folder:
        requests = Requests(PRODUCTS[precision], Path(folder))
        target = target_gpu(
            gpu, chooser, requests, requested.__setitem__, take, progress, **launched, precision=precision
        )
        _lower(program, specs, gpu, precision, target, weights.append)
    return made


def _lower(
    program: Any,
    specs: Iterable[Any],
    gpu: Gpu,
    precision: str,
    target: AbstractContextManager[None],
    moved: Callable[[Weights], object],
) -> None:
    """Lower a partition with Inductor. `target`: the context of target_gpu; `moved` is called with the partition's
    weights before."""
    require()
    import torch
    import torch._inductor
    from executorch.backends.cuda.cuda_backend import CudaBackend
    from executorch.backends.cuda.passes.replace_int64_floordiv import ReplaceInt64FloorDivWithFloatPass
    from torch._inductor.exc import InductorError

    from modelbuild_rules.backends.cuda.steps.generate.attention import fuse_attention
    from modelbuild_rules.backends.cuda.steps.generate.decompositions import decompositions
    from modelbuild_rules.backends.cuda.steps.generate.stored_weights import change_weights

    mark_nodes(program)
    specs = list(specs)
    options = {**CudaBackend.get_aoti_compile_options(specs), **OPTIONS}
    with target, _float32(precision), torch.no_grad():
        moved(move(program, "cuda", change_weights(program)))
        fuse_attention(program, gpu)
        _to_aten(program)
        for each in CudaBackend.get_custom_passes(specs):
            if isinstance(each, ReplaceInt64FloorDivWithFloatPass):
                continue  # it divides as float64; Inductor divides integers exactly
            each(program if getattr(each, "requires_exported_program", False) else program.graph_module)
        program = program.run_decompositions({**CudaBackend.get_decomposition_table(), **decompositions()})
        _state_ends(program)
        _make_outputs_contiguous(program)
        inputs = [n.meta["val"] for n in program.graph.nodes if n.name in program.graph_signature.user_inputs]
        with CudaBackend.get_extra_aoti_compile_context_manager(specs):
            try:
                torch._inductor.aot_compile(program.module(), tuple(inputs), options=options)
            except InductorError as error:
                if isinstance(error.inner_exception, StepError):
                    raise error.inner_exception from None
                raise


@contextmanager
def _float32(precision: str) -> Iterator[None]:
    """Set torch's precision of float32 products, which Inductor reads, while the context lasts; the default is fp32."""
    import torch

    kinds = (torch.backends.cuda.matmul, torch.backends.cudnn, torch.backends.cudnn.conv, torch.backends.cudnn.rnn)
    before = [kind.fp32_precision for kind in kinds]
    try:
        for kind in kinds if precision == "tf32" else ():
            kind.fp32_precision = "tf32"
        yield
    finally:
        for kind, usual in zip(kinds, before, strict=True):
            kind.fp32_precision = usual


def _without_interface(source: str) -> str:
    """Return a wrapper's source without AOTInductor's C interface, which is compiled once for all libraries. Raises
    ValueError if the source does not contain it once."""
    before, *after = source.split(interface())
    if len(after) != 1:
        raise ValueError(f"the wrapper contains AOTInductor's interface {len(after)} times, not once")
    return before + after[0]


def _quiet(source: str) -> str:
    """Return a wrapper's source without a message that its library would print whenever it is loaded with the
    delegate's constants: there is nothing to fold at runtime. Raises ValueError if the source lacks the message."""
    made, count = re.subn(r"if \(!initialization\) \{\s*std::cerr << [^}]*;\s*\}", "", source)
    if count != 1:
        raise ValueError(f"the wrapper has the message about constant folding {count} times, not once")
    return made


def _to_aten(program: Any) -> None:
    """Replace dim-order operators with ATen's, each view with a reshape, and a topk that becomes a sort with ATen's
    topk. ExecuTorch's passes keep these operators.

    Inductor may choose other strides than the edge program, so a view may need a copy. A transposed parameter is read
    where it is. For operators that copy a part of a tensor, which Inductor lacks, the copy becomes a separate node.
    """
    import torch

    from modelbuild_rules.backends.cuda.steps.generate.decompositions import sorts

    module, transposition = program.graph_module, torch.ops.aten.permute_copy.default
    known = program.graph_signature.inputs_to_parameters
    parameters = {node for node in module.graph.nodes if node.op == "placeholder" and node.name in known}
    for node in list(module.graph.nodes):
        operator = getattr(node.target, "_op", None)
        transposed = operator is transposition and node.args[0] in parameters
        if operator is torch.ops.aten.view_copy.default or transposed or sorts(node):
            node.target = aten_operator(node.target)
        elif operator in (torch.ops.aten.slice_copy.Tensor, torch.ops.aten.select_copy.int):
            node.target = aten_operator(node.target)
            with module.graph.inserting_after(node):
                copy = module.graph.call_function(torch.ops.aten.clone.default)
            copy.meta = dict(node.meta)
            node.replace_all_uses_with(copy)
            copy.args, copy.kwargs = (node,), {"memory_format": torch.contiguous_format}
            program.graph_signature.replace_all_uses(node.name, copy.name)  # it may be a buffer's new value
        elif getattr(operator, "namespace", "") == "dim_order_ops":
            others = {key: value for key, value in node.kwargs.items() if key != "dim_order"}
            node.target = aten_operator(node.target)
            node.kwargs = {**others, "memory_format": torch.contiguous_format}
    module.recompile()


def _state_ends(program: Any) -> None:
    """State the ends of slices: Inductor writes None into its C++ source if the other end depends on values."""
    import torch

    usual = (0, 0, sys.maxsize, 1)
    for node in program.graph.find_nodes(op="call_function", target=torch.ops.aten.slice.Tensor):
        given = (*node.args[1:], *usual[len(node.args) - 1 :])
        stated = (other if each is None else each for each, other in zip(given, usual, strict=True))
        node.args = (node.args[0], *stated)
    program.graph_module.recompile()


def _make_outputs_contiguous(program: Any) -> None:
    """Copy each output with strides that are not row-major, because the program's memory is row-major."""
    import torch

    (output,) = program.graph.find_nodes(op="output")
    copies: dict[Any, Any] = {}
    for node in dict.fromkeys(output.all_input_nodes):
        if not node.meta["val"].is_contiguous():
            with program.graph.inserting_before(output):
                copy = program.graph.call_function(torch.ops.aten.clone.default, (node,))
            copy.kwargs = {"memory_format": torch.contiguous_format}
            copy.meta = {**node.meta, "val": node.meta["val"].contiguous()}
            copies[node] = copy
    output.args = torch.fx.map_arg(output.args, lambda node: copies.get(node, node))
    for node, copy in copies.items():
        program.graph_signature.replace_all_uses(node.name, copy.name)
    program.graph_module.recompile()


def _sizes_declared(source: str, kernels: Iterable[Kernel]) -> str:
    """Return a wrapper's source with declarations of its kernels' shared memory, which is known once they are
    compiled."""
    names = [shared_memory(each.name) for each in kernels]
    lines = [f'extern "C" const std::int32_t {name} __attribute__((visibility("hidden")));' for name in names]
    return "\n".join(["#include <cstdint>", *lines, source])
