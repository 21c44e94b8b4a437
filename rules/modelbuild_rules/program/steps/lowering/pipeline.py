"""Lower a program with a stack of backends. The rewrites and checks of a program, in the order in which they run:

EXPORTED     rewrites of the exported program, once
REPEATED     rewrites before each lowering, of nodes that the previous lowering found unfit
             bounds of sizes that depend on values (rewrites/bounds.py)
EDGE         executorch decomposes the program to its edge dialect, and runs these passes
             the nodes that no backend takes and no kernel can run are unfit, or the program is refused
             each backend in turn gets its partitions, which are captured
DELEGATED    rewrites of the edge program whose partitions are calls of delegates
             the kernels of the remaining nodes are checked; executorch runs its own passes and plans memory

A lowering is repeated from REPEATED on if nodes are unfit, or if a backend can't compile a partition.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower

from modelbuild.step import Progress, StepError, ignore_progress
from modelbuild_rules.backend_api.steps.failure import library_failures
from modelbuild_rules.backend_api.steps.kept_results import computed_once
from modelbuild_rules.backend_api.steps.nodes import computing
from modelbuild_rules.backend_api.steps.partitioning import AttributeProblem
from modelbuild_rules.node_references import attribute_reference
from modelbuild_rules.operators.steps import factorization_shapes
from modelbuild_rules.program.steps.lowering.delegation import Delegation, Fact, RecordingPartitioner
from modelbuild_rules.program.steps.lowering.memory_plan import StateBuffers, device_io_errors
from modelbuild_rules.program.steps.lowering.patches.capture import captured
from modelbuild_rules.program.steps.lowering.patches.dim_order import (
    dynamic_empty,
    other_orders_row_major,
    unknown_sizes_ordered,
)
from modelbuild_rules.program.steps.lowering.patches.distinct import distinct_bounded
from modelbuild_rules.program.steps.lowering.patches.dynamic_sizes import dynamic_sizes_kept
from modelbuild_rules.program.steps.lowering.patches.passes import (
    one_fake_mode,
    passes_shown,
    register_slice_copy,
    typed_numbers,
)
from modelbuild_rules.program.steps.lowering.portable import check_kernels, to_executorch
from modelbuild_rules.program.steps.lowering.rewrites.bounds import bound_sizes, restore_ranges
from modelbuild_rules.program.steps.lowering.rewrites.complex_numbers.rewrite import (
    has_complex_numbers,
    in_real_arithmetic,
)
from modelbuild_rules.program.steps.lowering.rewrites.constants import fold_constants, has_constant_nodes
from modelbuild_rules.program.steps.lowering.rewrites.decomposition import without_repetition
from modelbuild_rules.program.steps.lowering.rewrites.delegated import has_conditions, initialize_buffers, keep_results
from modelbuild_rules.program.steps.lowering.rewrites.empty_cat import correct_cat, has_empty_cat
from modelbuild_rules.program.steps.lowering.rewrites.equivalents import has_equivalents, with_equivalents
from modelbuild_rules.program.steps.lowering.rewrites.linear import has_unknown_sizes, whole_linear
from modelbuild_rules.program.steps.lowering.rewrites.nonzero import correct_nonzero, has_nonzero
from modelbuild_rules.program.steps.lowering.rewrites.recurrent import has_recurrent_nets, keep_loops
from modelbuild_rules.program.steps.lowering.rewrites.replacing import with_forms
from modelbuild_rules.program.steps.lowering.rewrites.row_major import ROW_MAJOR
from modelbuild_rules.program.steps.lowering.rewrites.rows import has_separate_rows, join_rows
from modelbuild_rules.program.steps.lowering.rewrites.volumes import as_images
from modelbuild_rules.program.steps.lowering.stack import Stack, StackBackend
from modelbuild_rules.program.steps.lowering.unrunnable import Unfit, Unrunnable
from modelbuild_rules.program.steps.partitions.folder import Partitions


class Pass(NamedTuple):
    """A rewrite of a program.

    name      the operators that it rewrites, for progress
    applies   returns whether there are any, of a StackLowering; in DELEGATED, of an edge program
    run       returns the rewritten program, which may be the same, changed; in EDGE, passes for executorch
    """

    name: str
    applies: Callable[[Any], Any]
    run: Callable[[Any], Any]


def _of_program(name: str, applies: Callable[[Any], Any], run: Callable[[Any], Any]) -> Pass:
    """Return a pass whose functions take the program alone."""
    return Pass(name, lambda lowering: applies(lowering.program), lambda lowering: run(lowering.program))


EXPORTED = (
    # The other rewrites would unroll recurrent nets.
    Pass(
        "recurrent nets",
        lambda lowering: has_recurrent_nets(lowering.program),
        lambda lowering: keep_loops(lowering.program, lowering.stack.unrolls),
    ),
    _of_program("nonzero", has_nonzero, correct_nonzero),
    _of_program("operators that have equivalents", has_equivalents, with_equivalents),
    _of_program("complex numbers", has_complex_numbers, in_real_arithmetic),
    Pass(
        "constants",
        lambda lowering: has_constant_nodes(lowering.program, doubles=lowering.stack.generates_code),
        lambda lowering: fold_constants(lowering.program, doubles=lowering.stack.generates_code),
    ),
    _of_program("empty tensors in cat", has_empty_cat, correct_cat),
    Pass(
        "operators for the backends",
        lambda lowering: lowering.stack.backends,
        lambda lowering: lowering.stack.prepare(lowering.program),
    ),
)
REPEATED = (
    Pass(
        "convolutions of volumes",
        lambda lowering: lowering.unfit.volumes,
        lambda lowering: as_images(lowering.program, lowering.unfit.volumes),
    ),
    Pass(
        "operators without kernels",
        lambda lowering: lowering.unfit.operators,
        lambda lowering: with_forms(
            lowering.program, lowering.unfit.replaced, lowering.unfit.operators, lowering.unfit.nested
        ),
    ),
    Pass(
        "products of separate rows",
        lambda lowering: has_separate_rows(lowering.program),
        lambda lowering: join_rows(lowering.program, lowering.kept),
    ),
)
EDGE = (
    Pass("orders of dimensions", lambda lowering: True, lambda lowering: ROW_MAJOR),
    Pass("for the backends", lambda lowering: lowering.stack.backends, lambda lowering: lowering.stack.passes),
    Pass("linear layers", lambda lowering: has_unknown_sizes(lowering.program), lambda lowering: (whole_linear,)),
)
DELEGATED = (
    Pass("states of buffers", lambda program: program.graph_signature.buffers_to_mutate, initialize_buffers),
    Pass("results of conditions", has_conditions, keep_results),
)


def rewrite_delegated(program: Any) -> None:
    """Rewrite an edge program whose partitions are calls of delegates, in place."""
    for each in DELEGATED:
        if each.applies(program):
            each.run(program)


class StackLowering:
    """A program that is lowered with a stack.

    program      the ATen program, as rewritten so far
    stack        the stack
    unfit        the nodes of the last lowering for which the program must be rewritten
    nodes        the number of nodes that were offered to backends
    state        the buffers of the edge program
    edge         executorch's manager of the edge program whose partitions are calls of delegates
    delegation   the backend of each node
    partitions   the partitions, in `folder`
    """

    nodes: int
    state: StateBuffers
    edge: Any
    delegation: Delegation
    partitions: Partitions

    def __init__(self, program: Any, stack: Stack, folder: Path, progress: Progress = ignore_progress) -> None:
        self.program = program
        self.stack = stack
        self.unfit = Unfit()
        self._declared = dict(program.range_constraints)
        self._folder = folder
        self._progress = progress
        self._tried: set[Any] = set()
        self._unbounded = ""
        self._failed: Mapping[StackBackend, dict[str, str]] = {each: {} for each in stack.backends}
        self._is_checked = False
        self._only_checks = False

    def check(self) -> list[Fact]:
        """Check that each operator has a backend or a kernel; return the node's backends, without partitions. Raises
        StepError with all problems."""
        self._only_checks = True
        self.lower()
        facts = self.delegation.finish(self.stack.rest)
        check_kernels(self.edge.exported_program().graph_module, facts, self.stack)
        return facts

    def lower(self) -> None:
        """Rewrite the program, and lower it to an edge program and partitions. Raises StepError for a program that the
        stack can't run."""
        with dynamic_sizes_kept(self._declared):
            self._lower_rewritten()

    def _lower_rewritten(self) -> None:
        register_slice_copy()
        factorization_shapes.register()
        self._rewrite(EXPORTED)
        for number in count(1):
            self._begin()
            self._rewrite(REPEATED)
            self._unbounded = bound_sizes(self.program)
            self._progress(*(("lowering again", number) if number > 1 else ("lowering",)))
            try:
                if self._unbounded:
                    self._lower_unbounded()
                with library_failures(self.program):
                    return self._lower()
            except _Again:
                for path in self._folder.iterdir():
                    shutil.rmtree(path)

    def complete(self) -> list[Fact]:
        """Rewrite the edge program, and check the kernels of the remaining nodes; return all nodes. Raises StepError
        for a node that no kernel can run, or that the stack forbids."""
        facts = self.delegation.finish(self.stack.rest)
        check_kernels(self.edge.exported_program().graph_module, facts, self.stack)
        rewrite_delegated(self.edge.exported_program())
        return facts

    def to_executorch(self, config: ExecutorchBackendConfig, facts: Sequence[Fact]) -> Any:
        """Return the ExecuTorch program. Raises StepError for operators without a kernel."""
        quick, shown = computed_once(), passes_shown(self._progress)
        ordered, bounded = unknown_sizes_ordered(), distinct_bounded()
        kept = dynamic_sizes_kept(self._declared)
        with library_failures(self.program), device_io_errors(), shown, quick, ordered, bounded, kept:
            return to_executorch(self.edge, config, facts)

    def _rewrite(self, passes: Sequence[Pass]) -> None:
        for each in passes:
            if each.applies(self):
                self._progress(f"rewriting {each.name}")
                with library_failures(self.program):
                    self.program = each.run(self)
                restore_ranges(self.program, self._declared)

    @property
    def kept(self) -> set[Any]:
        """Return the operators that backends take as a whole."""
        return {operator for each in self.partitioners for operator in each.ops_to_not_decompose(self.program)[0]}

    def _begin(self) -> None:
        self.delegation = Delegation()
        self.partitions = Partitions(self._folder, self.delegation)
        self._numbers = count(1)
        with library_failures(self.program):
            self.partitioners = [self._partitioner(each) for each in self.stack.backends]
        for place, partitioner in enumerate(self.partitioners, 1):
            partitioner.following = self.partitioners[place:]

    def _partitioner(self, backend: StackBackend) -> RecordingPartitioner:
        try:
            return RecordingPartitioner(backend, self.delegation, self._failed[backend], self._progress, self._check)
        except AttributeProblem as problem:
            raise StepError(f"{attribute_reference(problem.attribute, backend.number)}: {problem.problem}") from None

    def _lower(self) -> None:
        """Lower the program once. Raises _Again if it must be lowered again, and _Checked if sizes have no bound."""
        passes = [each for group in EDGE if group.applies(self) for each in group.run(self)]
        # Operators that no backend takes are checked later.
        config = EdgeCompileConfig(_check_ir_validity=False)
        ids = {id for backend in self.stack.backends for id in backend.partitioning.ids}
        with (
            captured(ids, self._capture),
            without_repetition(),
            computed_once(),
            other_orders_row_major(),
            dynamic_empty(),
            one_fake_mode(self.program),
            typed_numbers(),
        ):
            self.edge = to_edge_transform_and_lower(self.program, passes, self.partitioners, compile_config=config)
        if not self.stack.backends:
            self._check(self.edge.exported_program())
            self.delegation.record_nodes(self.edge.exported_program())

    def _lower_unbounded(self) -> NoReturn:
        """Raise StepError for a program with sizes that have no bound, and the problems of its operators, if executorch
        can decompose it."""
        problems = []
        try:
            self._lower()
        except _Again:
            raise
        except StepError as problem:
            problems.append(str(problem))
        except Exception:  # exceptions of executorch, or the end of the check: the sizes are the problem
            pass
        raise StepError("; ".join([*problems, self._unbounded]))

    def _check(self, edge: Any) -> None:
        """Check the operators of the edge program before any backend gets a partition of it."""
        restore_ranges(edge, self._declared)
        if self._is_checked:
            return
        unrunnable = Unrunnable(edge, self.stack)
        self.unfit = unrunnable.unfit(self._tried)
        if self.unfit:
            raise _Again
        if problems := unrunnable.problems():
            raise StepError(problems)
        self._is_checked = True
        self.state = StateBuffers(edge)
        self.nodes = sum(1 for _ in computing(edge.graph_module))
        if self._unbounded:
            raise _Checked

    def _capture(self, part: Any, specs: Any) -> str:
        """Keep a partition; return its id."""
        backend = self.delegation.current
        if self._only_checks:
            self.delegation.record_partition(part, id := f"p{next(self._numbers) - 1}")
            return id
        self._progress("partition", next(self._numbers), self.delegation.found)
        failed = backend.partitioning.failure(part, backend.attributes)
        if failed:
            self._failed[backend].update(failed)
            raise _Again
        return self.partitions.keep(part, specs)


class _Again(Exception):
    """Ends a lowering that must be repeated, because of `unfit` or of nodes that a backend cannot compile."""


class _Checked(Exception):
    """Ends a lowering of a program with sizes that have no bound, after the check of operators."""
