"""Make and run programs whose intermediate tensors are outputs, with the delegates of a built program."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from executorch.exir import ExecutorchBackendConfig
from executorch.exir._serialize._named_data_store import NamedDataStoreOutput
from executorch.exir._serialize.data_serializer import DataEntry
from executorch.exir.lowered_backend_module import LoweredBackendModule
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.sym_shape_eval_pass import ConstraintBasedSymShapeEvalPass
from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument
from torch.utils import _pytree as pytree

from modelbuild_rules.backend_api.steps.compiled import PROCESSED
from modelbuild_rules.backend_api.steps.named_data import Named, read_named
from modelbuild_rules.program.steps.linking.link import Part, Residual, link, read_file
from modelbuild_rules.program.steps.lowering.memory_plan import arena_config
from modelbuild_rules.program.steps.lowering.pipeline import rewrite_delegated
from modelbuild_rules.program.steps.partitions.placeholder import partition_of

Array = np.ndarray


def tap(program: Any, wanted: Collection[Any] | None = None) -> list[str]:
    """Add every tensor that nodes of a lowered program compute to its outputs; with `wanted`, replace its outputs by
    the outputs of these nodes. Return the nodes' names in the order of the outputs, '' for an output that is not a
    node."""
    output = program.graph.output_node()
    specs = program.graph_signature.output_specs
    before = [] if wanted is not None else [(node, spec) for node, spec in zip(output.args[0], specs, strict=True)]
    given = {node.name for node, spec in before if spec.kind == OutputKind.USER_OUTPUT and hasattr(node, "name")}
    new = [
        node
        for node in program.graph.nodes
        if node.op == "call_function"
        and node.name not in given
        and (wanted is None or node in wanted)
        and isinstance(node.meta.get("val"), torch.Tensor)
    ]
    output.args = ((*(node for node, _ in before), *new),)
    output.meta["val"] = tuple(node.meta.get("val") if hasattr(node, "meta") else node for node in output.args[0])
    specs[:] = [spec for _, spec in before]
    specs += [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in new]
    program.graph_module.recompile()
    first = [getattr(node, "name", "") for node, spec in before if spec.kind == OutputKind.USER_OUTPUT]
    names = first + [node.name for node in new]
    program.module_call_graph[0].signature.out_spec = pytree.tree_structure(tuple(names))
    return names


def relink(edges: Mapping[str, Any], modules: Mapping[str, int], built: Path, folder: Path) -> Path:
    """Write lowered methods, by their names in a built program, to a .pte in `folder`, with the delegates at the same
    positions in the built program. Methods with the same number in `modules` share their state."""
    target = folder / "tapped.pte"
    residuals = {method: _residual(edge, built, method, folder / method, len(edges)) for method, edge in edges.items()}
    link(residuals, target, None, modules=modules if len(residuals) > 1 else None)
    return target


def _residual(edge: Any, built: Path, method: str, folder: Path, methods: int) -> Residual:
    """Write a lowered method, whose state has names if there are several methods."""
    folder.mkdir()
    program = edge.exported_program()
    rewrite_delegated(program)
    arenas = arena_config(program, False) if methods > 1 else {}
    lowered = edge.to_executorch(ExecutorchBackendConfig(external_constants=False, **arenas))
    residual = folder / "residual.pte"
    with residual.open("wb") as file:
        lowered.write_to_file(file)
    return Residual(residual, (), _parts(residual, built, method, folder))


def _parts(residual: Path, built: Path, method: str, folder: Path) -> dict[str, Part]:
    """Return the built method's delegate for each placeholder of the residual method, by partition."""
    placeholders, marks = read_file(residual)
    table, blobs = read_file(built)
    named = tuple(
        Named(entry.key, blobs[entry.segment_index].save(folder / f"named.{number}"))
        for number, entry in enumerate(table.named_data or [])
    )
    plan = next(each for each in table.execution_plan if each.name == method)
    parts: dict[str, Part] = {}
    for number, (mark, delegate) in enumerate(
        zip(placeholders.execution_plan[0].delegates or [], plan.delegates or [], strict=True)
    ):
        id = partition_of(marks[mark.processed.index].read())
        assert id is not None
        if id not in parts:
            path = folder / f"processed.{number}"
            # An empty blob has no segment.
            blob = blobs[delegate.processed.index] if delegate.processed.location else None
            parts[id] = Part(blob.save(path) if blob else _empty(path), () if parts else named)
    return parts


def _empty(path: Path) -> Path:
    path.write_bytes(b"")
    return path


def _planned(module: torch.fx.GraphModule) -> Any:
    """Plan memory with the upper bounds of dynamic sizes."""
    ConstraintBasedSymShapeEvalPass()(module)
    return MemoryPlanningPass()(module)


def write_delegate(module: LoweredBackendModule, compiled: Path) -> Path:
    """Write a program of a single partition that a compile step wrote to a folder. Return its path, next to the
    folder."""
    entries = read_named(compiled)
    data = NamedDataStoreOutput(
        [entry.path.read_bytes() for entry in entries],
        {entry.key: DataEntry(place, entry.alignment, None) for place, entry in enumerate(entries)},
        {},
    )
    processed = (compiled / PROCESSED).read_bytes()
    made = LoweredBackendModule(module.original_module, module.backend_id, processed, module.compile_specs, data)
    path = compiled.parent / "delegate.pte"
    path.write_bytes(made.buffer(extract_delegate_segments=True, memory_planning=_planned))
    return path
