"""Build requested targets: nothing if nothing changed, else load, analyse, run and lay out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from modelbuild.build.import_folders import import_path, importable
from modelbuild.build.request import ExpectedTarget, Request, Result
from modelbuild.build.snapshot import Seen, Snapshots
from modelbuild.build.stale_targets import find_stale
from modelbuild.events import BuildFinished, Reporter, TargetBuilt
from modelbuild.workspace.workspace import OUTPUT_FOLDER, Workspace

if TYPE_CHECKING:
    from modelbuild.execution.fork_server_client import ForkServer


def build(
    workspace: Workspace,
    request: Request,
    reporter: Reporter,
    check: Callable[[Iterable[ExpectedTarget]], None] = lambda targets: None,
) -> Result:
    """Build. Raises ModelbuildError for errors before any action runs, such as a read-only output tree; failed actions
    are in the result.

    check  called before anything is done, with the known facts about the targets; may raise
    """
    started = time.monotonic()
    # First, because Python may import from the root, whose ctime this changes.
    with suppress(OSError):  # a null build may run in a read-only workspace
        (workspace.root / OUTPUT_FOLDER).mkdir()
    seen = Seen()
    seen.python.update(importable(import_path()))
    snapshots = Snapshots.of(workspace)
    stale = find_stale(snapshots.path(request), str(workspace.root))
    if stale is not None and not stale.labels:
        for target in stale.fresh:
            reporter.emit(TargetBuilt(target.label, target.config, target.outputs))
        reporter.emit(BuildFinished(time.monotonic() - started, up_to_date=True, actions=stale.record.actions))
        return Result(stale.fresh, actions=stale.record.actions, up_to_date=True)

    from modelbuild.store.output_tree import make_root

    make_root(workspace.root / OUTPUT_FOLDER)
    # If only sources changed, an action will run soon, with little to do before it.
    here = request.remote.executor is None and request.toolchain is None
    with _early_fork_server(stale is not None and bool(stale.changed) and here) as spare:
        from modelbuild.build.execute import Job, execute
        from modelbuild.build.plan import make_plan
        from modelbuild.build.retry import retry_without_remote

        def work(request: Request, reporter: Reporter) -> Result:
            part = None if stale is None or stale.most else stale
            asked = request if part is None else replace(request, patterns=tuple(sorted(part.labels)), places=())
            plan = make_plan(workspace, asked, reporter)
            fresh = part.fresh if part is not None else ()
            check([*(ExpectedTarget(target.label, target.outputs) for target in fresh), *plan.expected()])
            return execute(Job(workspace, request, reporter, started, snapshots), plan, seen, part, spare)

        return retry_without_remote(work, request, reporter)


@contextmanager
def _early_fork_server(wanted: bool) -> Iterator[ForkServer | None]:
    """Start the fork server while the modules that run actions are imported here."""
    if not wanted:
        yield None
        return
    from modelbuild.execution.fork_server_client import ForkServer

    server = ForkServer()
    try:
        yield server
    finally:
        server.close()
