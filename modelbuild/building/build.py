"""Build what is asked for: nothing if nothing changed, else load, analyse, run, lay out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from modelbuild.building.declared import Foreseen
from modelbuild.building.imports import import_path, importable
from modelbuild.building.narrow import narrow
from modelbuild.building.request import Request, Result
from modelbuild.building.snapshot import Seen, Snapshots
from modelbuild.events import BuildFinished, Reporter, TargetBuilt
from modelbuild.workspace import OUTPUT_FOLDER, Workspace

if TYPE_CHECKING:
    from modelbuild.execution.warm import Warm


def build(
    workspace: Workspace,
    request: Request,
    reporter: Reporter,
    check: Callable[[Iterable[Foreseen]], None] = lambda targets: None,
) -> Result:
    """Raises ModelbuildError for what is wrong before any action runs, such as an output tree that cannot be written
    to; failures of actions are in the result.

    check  called before anything is done, with what is known of the targets by then; may raise
    """
    started = time.monotonic()
    # First, because Python may import from the root, whose time moves.
    with suppress(OSError):  # Where nothing is to be done, the workspace may be read-only.
        (workspace.root / OUTPUT_FOLDER).mkdir()
    seen = Seen()
    seen.python.update(importable(import_path()))
    snapshots = Snapshots.of(workspace)
    rest = narrow(snapshots.path(request), str(workspace.root))
    if rest is not None and not rest.stale:
        for target in rest.targets:
            reporter.emit(TargetBuilt(target.label, target.config, target.outputs))
        reporter.emit(BuildFinished(time.monotonic() - started, up_to_date=True, actions=rest.record.actions))
        return Result(rest.targets, actions=rest.record.actions, up_to_date=True)

    from modelbuild.store.output_tree import make_root

    make_root(workspace.root / OUTPUT_FOLDER)
    # Where only sources changed, there is an action to run, and little to do before it.
    with _spare(rest is not None and bool(rest.changed) and request.remote.executor is None) as spare:
        from modelbuild.building.again import again
        from modelbuild.building.carry_out import carry_out

        def work(request: Request, reporter: Reporter) -> Result:
            left = rest
            declared = left.declared() if left is not None else None
            if declared is None:
                from modelbuild.building.declare import declare

                left = None if left is not None and left.most else left
                asked = request if left is None else replace(request, patterns=tuple(sorted(left.stale)))
                declared = declare(workspace, asked, reporter)
            built = left.targets if left is not None else ()
            check([*(Foreseen(target.label, target.outputs) for target in built), *declared.foreseen()])
            return carry_out(workspace, request, snapshots, reporter, started, seen, declared, left, spare)

        return again(work, request, reporter)


@contextmanager
def _spare(wanted: bool) -> Iterator[Warm | None]:
    """Have a process for actions start while all that it takes to run them is imported here."""
    if not wanted:
        yield None
        return
    from modelbuild.execution.warm import Warm

    warm = Warm()
    try:
        yield warm
    finally:
        warm.close()
