"""Record tests on devices in the history, with the commit."""

from __future__ import annotations

from collections.abc import Iterable

from modelbuild.affected.git import find_head
from modelbuild.events import TestFinished
from modelbuild.history.device_runs import DeviceRun, remember_runs
from modelbuild.history.regressions import EXACT
from modelbuild.ids import TargetId
from modelbuild.workspace.workspace import Workspace


def remember_devices(workspace: Workspace, tests: Iterable[TestFinished]) -> None:
    """Store measurements on devices: latencies, memory, temperatures and clocks, but not sizes of files."""
    runs = []
    for test in tests:
        measured = {name: value for name, value in test.measures.items() if name not in EXACT}
        if test.identity and measured:
            subject = TargetId.of(test.label, test.config)
            runs.append(DeviceRun(test.device, test.identity, subject, test.cached, measured))
    if runs:
        remember_runs(workspace.config.cache_dir, workspace.root, runs, find_head(workspace.root))
