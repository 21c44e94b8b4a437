"""Build requested targets: nothing if nothing changed, else load, analyse, run and lay out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from modelbuild.build_record.snapshots import Seen, Snapshot
from modelbuild.errors import ExitCode
from modelbuild.events import BuildFinished, Reporter, TargetBuilt
from modelbuild.session.request import Request
from modelbuild.session.result import ExpectedTarget, Result
from modelbuild.workspace.workspace import OUTPUT_FOLDER, Workspace

if TYPE_CHECKING:
    from modelbuild.execution.fork_server_client import ForkServer
    from modelbuild.session.session import Session


def build(
    workspace: Workspace,
    request: Request,
    reporter: Reporter,
    check: Callable[[Iterable[ExpectedTarget]], None] = lambda targets: None,
) -> Result:
    """Build. Raises ModelbuildError for errors before any action runs, such as a read-only output tree; failed actions
    are in the result.

    check  called before any work, with the known facts about the targets; may raise
    """
    seen = begin(workspace)
    snapshot = Snapshot.of(workspace, request.identity())
    if request.means.verify_sources:  # equal stamps prove nothing
        snapshot.forget_all()
    stale = snapshot.find_stale(workspace.root)
    if stale is not None and not stale.labels:
        for target in stale.fresh:
            reporter.emit(TargetBuilt(target.label, target.config, target.outputs))
        reporter.emit(BuildFinished(time.monotonic() - seen.started, up_to_date=True, actions=stale.record.actions))
        return Result(stale.fresh, actions=stale.record.actions, up_to_date=True)

    part = None if stale is None or stale.most else stale
    fresh = part.fresh if part is not None else ()
    # If only sources changed, an action will run soon, with little to do before it.
    here = request.means.remote.executor is None and request.means.toolchain is None
    with _early_fork_server(stale is not None and bool(stale.changed) and here) as spare:
        from modelbuild.session.session import in_session

        def work(session: Session) -> Result:
            plan = session.make_plan()
            check([*(ExpectedTarget(target.label, target.outputs) for target in fresh), *plan.expected()])
            session.run(plan.targets)
            result = session.result(session.lay_out(plan.targets))
            for target in fresh:
                reporter.emit(TargetBuilt(target.label, target.config, target.outputs))
            if result.code == ExitCode.OK:
                result = session.record(snapshot, result, part)
            else:
                snapshot.forget()
            return session.finish(result)

        asked = request if part is None else request.of(sorted(part.labels))
        return in_session(workspace, asked, reporter, work, seen, spare)


def begin(workspace: Workspace) -> Seen:
    """Return the state that a build sees before it reads or imports anything."""
    # First, because Python may import from the root, whose ctime this changes.
    with suppress(OSError):  # a build with nothing to do may run in a read-only workspace
        (workspace.root / OUTPUT_FOLDER).mkdir()
    return Seen.start()


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
