"""Lower an exported program with the backends of a stack; write the partitions that they take, without compiling them.

Inputs   program, weights   trees, as model/steps/exported/program.py writes them
         calls              tree: calls that the module accepts (model/steps/calls/recorded.py), if a backend's
                            compiler is to be checked on the first
         eager              Python files that register the operators of kernel libraries; optional
Params   backends           [OfferedBackend], in the order in which they are offered nodes
         kernels            [GivenLibrary] of kernels/documents.py; optional
         external_weights   true if the program's own constants are outside the .pte
         versions           names of the packages whose versions are in the program's manifest; optional
         device_io          true if inputs and outputs of partitions on a GPU stay in device memory; optional
         shares_state       true if buffers that the method changes get an arena of their own, under their names
Outputs  residual           tree: program.pte, whose delegates are placeholders, constants outside it,
                            versions.json, and kernels.json if it needs kernel libraries: [ManifestKernels]
         partitions         tree: p0/, p1/, ... each a program of its own (program/, weights/) with partition.json
         plan               JSON: [PlannedPartition]
         report             JSON: [NodeDelegation], in the program's order; program/documents.py has the documents.
         notes              text: facts for the program's author, a line each
         state              JSON: MethodState, with `shares_state`
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower

from modelbuild.step import Progress, Step, StepError, ignore_progress
from modelbuild_rules.backend_api.steps import executorch_private
from modelbuild_rules.backend_api.steps.composite_operators import composite_operators_found_once
from modelbuild_rules.backend_api.steps.failure import library_failures
from modelbuild_rules.backend_api.steps.kept_results import computed_once
from modelbuild_rules.backend_api.steps.partitioning import Partitioning, partitioning
from modelbuild_rules.model.steps.calls.recorded import first_inputs
from modelbuild_rules.model.steps.exported.program import load_program
from modelbuild_rules.operators.steps import custom, factorization_shapes
from modelbuild_rules.program.steps.lowering.agreement import Compiler, check_agreement, input_types
from modelbuild_rules.program.steps.lowering.check import check_operators
from modelbuild_rules.program.steps.lowering.constants import CONSTANTS, initialize_buffers, outside, write_constants
from modelbuild_rules.program.steps.lowering.delegation import Delegation, RecordingPartitioner
from modelbuild_rules.program.steps.lowering.device_io import device_io_config, device_io_errors
from modelbuild_rules.program.steps.lowering.notes import notes
from modelbuild_rules.program.steps.lowering.patches.capture import captured
from modelbuild_rules.program.steps.lowering.patches.dim_order import other_orders_row_major, unknown_sizes_ordered
from modelbuild_rules.program.steps.lowering.patches.fake_mode import one_fake_mode
from modelbuild_rules.program.steps.lowering.patches.planning import passes_shown
from modelbuild_rules.program.steps.lowering.portable import (
    check_allowed,
    check_dtypes,
    needed_libraries,
    to_executorch,
)
from modelbuild_rules.program.steps.lowering.rewrites import slices
from modelbuild_rules.program.steps.lowering.rewrites.bounds import bound_sizes
from modelbuild_rules.program.steps.lowering.rewrites.conditions import keep_results
from modelbuild_rules.program.steps.lowering.rewrites.decomposition import without_repetition
from modelbuild_rules.program.steps.lowering.rewrites.empty_cat import correct_cat
from modelbuild_rules.program.steps.lowering.rewrites.equivalents import with_equivalents
from modelbuild_rules.program.steps.lowering.rewrites.fitness import Unfit, check_fit, has_complex_scalars
from modelbuild_rules.program.steps.lowering.rewrites.linear import has_unknown_sizes, whole_linear
from modelbuild_rules.program.steps.lowering.rewrites.nonzero import correct_nonzero
from modelbuild_rules.program.steps.lowering.rewrites.recurrent import keep_loops
from modelbuild_rules.program.steps.lowering.rewrites.replacing import with_forms
from modelbuild_rules.program.steps.lowering.rewrites.row_major import ROW_MAJOR
from modelbuild_rules.program.steps.lowering.rewrites.rows import join_rows
from modelbuild_rules.program.steps.lowering.rewrites.volumes import as_images
from modelbuild_rules.program.steps.lowering.state_buffers import StateBuffers
from modelbuild_rules.program.steps.partitions.folder import Partitions

if TYPE_CHECKING:
    from modelbuild_rules.backend_api.documents import OfferedBackend


@composite_operators_found_once()
def run(step: Step) -> None:
    executorch_private.require()
    step.progress("reading the program")
    custom.load(step.root, step.params.get("kernels", ()))
    program = load_program(step.input("program"), step.input("weights"))
    entries: Sequence[OfferedBackend] = step.params["backends"]
    backends = {i: backend for i, entry in enumerate(entries) if (backend := partitioning(entry)) is not None}
    folder = step.outputs["partitions"]
    check = partial(check_operators, entries=entries, backends=backends)
    state = StateBuffers()
    edge, delegation, partitions = lower(
        correct_nonzero(correct_cat(program)), entries, backends, folder, step.progress, state.noted(check)
    )
    plan = partitions.plan(entries)
    given = first_inputs(step.input("calls"), input_types(program)) if "calls" in step.inputs else None
    if given is not None:
        step.progress("comparing with the model")
        places = {each["id"]: each["entry"] for each in plan}

        def compiler(id: str) -> Compiler:
            return Compiler(backends[places[id]], entries[places[id]]["attributes"])

        check_agreement(program, edge.exported_program(), compiler, given)
    rest = next((entry for entry in entries if not entry["partitioning"]), None)
    facts = delegation.finish(rest and rest["kind"])
    check_allowed(facts, rest and rest["attributes"]["ops"], rest is not None)
    check_dtypes(edge.exported_program().graph_module, facts)
    initialize_buffers(edge.exported_program())
    keep_results(edge.exported_program().graph_module)
    external = bool(step.params["external_weights"])
    config: dict[str, Any] = {"external_constants": outside if external else False}
    if step.params.get("device_io"):
        config |= device_io_config()
    if step.params.get("shares_state"):
        config |= state.arena_config(edge.exported_program(), bool(step.params.get("device_io")))
        memory = {i: backend.common(entries[i]["attributes"]) for i, backend in backends.items()}
        common = {name: memory[entry] for name, entry in partitions.changed().items() if memory[entry]}
        _write_json(step.outputs["state"], state.as_json(edge.exported_program(), common))
    shown = passes_shown(step.progress)
    with library_failures(program), device_io_errors(), shown, computed_once(), unknown_sizes_ordered():
        lowered = to_executorch(edge, ExecutorchBackendConfig(**config), facts)
    _write_residual(lowered, step.outputs["residual"])
    versions = {name: metadata.version(name) for name in step.params.get("versions", ())}
    _write_json(step.outputs["residual"] / "versions.json", versions)
    if libraries := needed_libraries(lowered):
        _write_json(step.outputs["residual"] / "kernels.json", libraries)
    _write_json(step.outputs["plan"], plan)
    _write_json(step.outputs["report"], [fact.as_json() for fact in facts])
    step.outputs["notes"].write_text("".join(f"{note}\n" for note in notes(program, facts, backends.values())))


def _accept(program: Any) -> None:
    """Check nothing."""


def lower(
    program: Any,
    entries: Sequence[OfferedBackend],
    backends: Mapping[int, Partitioning],
    folder: Path,
    progress: Progress = ignore_progress,
    check: Callable[[Any], None] = _accept,
) -> tuple[Any, Delegation, Partitions]:
    """Return the lowered edge program, the delegation of its nodes, and the partitions in `folder`. `check` is called
    with the edge program before any backend gets a partition of it."""
    slices.register()
    factorization_shapes.register()
    program = with_equivalents(program)
    program = keep_loops(program, next((each.unrolls for each in backends.values()), Partitioning.unrolls))
    for backend in backends.values():
        if backend.real_arithmetic:
            program = _in_real_arithmetic(program)
        program = backend.prepare(program)
    if has_complex_scalars(program):
        program = _rewritten(program, Unfit(complex=True))
    failed_nodes: dict[int, dict[str, str]] = {i: {} for i in backends}
    try:
        bound_sizes(program)
    except StepError as unbounded:
        once = partial(_lower_once, program, entries, backends, folder, failed_nodes, progress)
        others = _problems(check, once)
        raise StepError("; ".join([*others, str(unbounded)])) from None
    passes = count(1)
    fit = partial(check_fit, entries=entries, backends=backends, tried=set())
    while True:
        again = next(passes)
        progress(*(("lowering again", again) if again > 1 else ("lowering",)))
        try:
            with library_failures(program):
                return _lower_once(program, entries, backends, folder, failed_nodes, progress, (fit, check))
        except _Failed as failed:
            # Lower the whole program again, without the failed nodes for that backend.
            failed_nodes[failed.entry].update(failed.nodes)
            check = _accept
            for path in folder.iterdir():
                shutil.rmtree(path)
        except Unfit as unfit:
            program = _rewritten(program, unfit)
            bound_sizes(program)


def _lower_once(
    program: Any,
    entries: Sequence[OfferedBackend],
    backends: Mapping[int, Partitioning],
    folder: Path,
    failed_nodes: Mapping[int, Mapping[str, str]],
    progress: Progress,
    checks: Sequence[Callable[[Any], None]],
) -> tuple[Any, Delegation, Partitions]:
    """Lower the program once. Raises _Failed for a partition that its backend tried and can't compile, and Unfit for a
    program that has to be rewritten."""
    delegation = Delegation()
    partitions = Partitions(folder, delegation, {i: b.annotations for i, b in backends.items()})

    def before(edge: Any) -> None:
        for check in checks:
            check(edge)

    numbers = count(1)

    def keep(part: Any, specs: Any) -> str:
        progress("partition", next(numbers), delegation.found)
        entry = delegation.entry
        failed = backends[entry].failure(part, entries[entry]["attributes"])
        if failed:
            raise _Failed(entry, failed)
        return partitions.keep(part, specs)

    partitioners = [
        RecordingPartitioner(i, entries[i], b, delegation, failed_nodes[i], progress) for i, b in backends.items()
    ]
    for place, each in enumerate(partitioners):
        each.following = partitioners[place + 1 :]
    for first in partitioners[:1]:
        first.before = before
    join_rows(program, {operator for each in partitioners for operator in each.ops_to_not_decompose(program)[0]})
    passes = [*ROW_MAJOR, *(each for backend in backends.values() for each in backend.passes)]
    if has_unknown_sizes(program):
        passes.append(whole_linear)
    # Operators that no backend takes are checked later.
    config = EdgeCompileConfig(_check_ir_validity=False)
    ids = {id for backend in backends.values() for id in backend.ids}
    with captured(ids, keep), without_repetition(), computed_once(), other_orders_row_major(), one_fake_mode(program):
        edge = to_edge_transform_and_lower(program, passes, partitioners, compile_config=config)
    if not backends:
        before(edge.exported_program())
        delegation.record_nodes(edge.exported_program())
    return edge, delegation, partitions


def _problems(check: Callable[[Any], None], lower: Callable[..., Any]) -> list[str]:
    """Return what `check` finds in a program with sizes that have no bound, if executorch can decompose it."""

    def checked(edge: Any) -> None:
        check(edge)
        raise _Failed(0, {})

    try:
        lower([checked])
    except StepError as problem:
        return [str(problem)]
    except Exception:  # of executorch, or the end of the check: the sizes are the problem
        return []
    return []


def _rewritten(program: Any, unfit: Unfit) -> Any:
    """Return a program that computes the same without the nodes for which it is unfit."""
    if unfit.complex:
        program = _in_real_arithmetic(program)
    as_images(program, unfit.volumes)
    if unfit.operators:
        program = with_forms(program, unfit.replaced, unfit.operators, unfit.nested)
    return program


def _in_real_arithmetic(program: Any) -> Any:
    from modelbuild_rules.program.steps.lowering.rewrites.complex_numbers.rewrite import in_real_arithmetic

    return in_real_arithmetic(program)


class _Failed(Exception):
    """Raised if a backend can't compile a partition, with its number in the stack, and the reason by node at fault."""

    def __init__(self, entry: int, nodes: Mapping[str, str]) -> None:
        super().__init__(entry, nodes)
        self.entry = entry
        self.nodes = nodes


def _write_residual(lowered: Any, folder: Path) -> None:
    with (folder / "program.pte").open("wb") as file:
        lowered.write_to_file(file)
    (folder / CONSTANTS).mkdir()
    write_constants(lowered, folder / CONSTANTS)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")
