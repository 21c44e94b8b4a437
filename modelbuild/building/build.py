"""Build what is asked for: nothing if nothing changed, else load, analyse, run, lay out."""

from __future__ import annotations

import time

from modelbuild.building.request import Request, Result
from modelbuild.building.snapshot import Snapshots
from modelbuild.report.events import BuildFinished, Reporter, TargetBuilt
from modelbuild.workspace import find_workspace


def build(request: Request, reporter: Reporter) -> Result:
    """Raises ModelbuildError for what is wrong before any action runs; failures of actions are in the result."""
    started = time.monotonic()
    workspace = find_workspace(request.directory)
    snapshots = Snapshots(workspace.root, workspace.output, workspace.cache)
    known = snapshots.up_to_date(request)
    if known is not None:
        targets, actions = known
        for target in targets:
            reporter.emit(TargetBuilt(target.label, target.config, target.outputs))
        reporter.emit(BuildFinished(time.monotonic() - started, up_to_date=True, actions=actions))
        return Result(workspace.root, targets, actions=actions, up_to_date=True)

    from modelbuild.building.full import full_build

    return full_build(request, workspace, snapshots, reporter, started)
