"""Build what is asked for: nothing if nothing changed, else load, analyse, run, lay out."""

from __future__ import annotations

import time

from modelbuild.building.request import BuiltTarget, Request, Result
from modelbuild.building.snapshot import Snapshots
from modelbuild.report.events import BuildFinished, Reporter, TargetBuilt
from modelbuild.workspace import Workspace


def build(workspace: Workspace, request: Request, reporter: Reporter) -> Result:
    """Raises ModelbuildError for what is wrong before any action runs; failures of actions are in the result."""
    started = time.monotonic()
    snapshots = Snapshots.of(workspace)
    known = snapshots.up_to_date(request)
    if known is not None:
        targets = tuple(BuiltTarget(*target) for target in known.targets)
        for target in targets:
            reporter.emit(TargetBuilt(target.label, target.config, target.outputs))
        reporter.emit(BuildFinished(time.monotonic() - started, up_to_date=True, actions=known.actions))
        return Result(targets, actions=known.actions, up_to_date=True)

    from modelbuild.building.full import full_build
    from modelbuild.building.narrow import narrow

    rest = narrow(snapshots.path(request), str(workspace.root))
    return full_build(workspace, request, snapshots, reporter, started, rest)
