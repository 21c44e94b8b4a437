"""Run pytest on the tests among step.inputs["srcs"] and write each test's result."""

from __future__ import annotations

import os
import sys
from fnmatch import fnmatch
from typing import Any

import pytest

from modelbuild.step import Progress, Step, StepError
from modelbuild_rules.testing.steps.test_report import Case, limit_time, write_report

_PATTERNS = ("test_*.py", "*_test.py")


def run(step: Step) -> None:
    limit_time(step)
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(step.root))
    tests = [str(path) for path in step.inputs["srcs"] if any(fnmatch(path.name, each) for each in _PATTERNS)]
    if not tests:
        raise StepError(f"no test among the srcs; expected a file called {' or '.join(_PATTERNS)}")
    shard, count = step.params["shard"]
    plugin = _ShardPlugin(shard, count, step.progress)
    plugins = [argument for name in step.params["plugins"] for argument in ("-p", name)]
    own = [
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        "--rootdir",
        str(step.root),
        "--confcutdir",
        str(step.root),
        "--import-mode=prepend",
    ]
    code = pytest.main([*own, *plugins, *step.params["args"], *tests], plugins=[plugin])
    if code in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERNAL_ERROR):
        raise StepError(f"pytest ended with {pytest.ExitCode(code).name.lower().replace('_', ' ')}")
    write_report(step, list(plugin.cases.values()), reason="pytest found no test in this shard")


class _ShardPlugin:
    """A pytest plugin that selects this shard's tests and records their results."""

    def __init__(self, shard: int, count: int, progress: Progress) -> None:
        self._shard = shard
        self._count = count
        self._progress = progress
        self._started = self._tests = 0
        self.cases: dict[str, Case] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = items[self._shard :: self._count]
        self._tests = len(items)

    def pytest_runtest_logstart(self) -> None:
        self._started += 1
        self._progress("test", self._started, self._tests)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._note(report, "failed", 0.0)
        elif report.skipped and self._shard == 0:
            self._note(report, "not_run", 0.0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        before = self.cases.get(report.nodeid)
        seconds = round(report.duration + (before.seconds if before else 0.0), 6)
        if report.failed:
            self._note(report, "failed", seconds)
        elif report.skipped:
            self._note(report, "not_run", seconds)
        elif report.when == "call" and before is None:
            self.cases[report.nodeid] = Case(report.nodeid, "passed", seconds)

    def _note(self, report: Any, status: Any, seconds: float) -> None:
        if report.nodeid in self.cases and self.cases[report.nodeid].status == "failed":
            return
        place = ""
        if status == "not_run" and isinstance(report.longrepr, tuple):
            _, _, message = report.longrepr
            message = message.removeprefix("Skipped: ")
        else:
            crash = getattr(report.longrepr, "reprcrash", None)
            message = crash.message if crash else str(report.longrepr)
            if crash:
                place = f"{os.path.relpath(crash.path)}:{crash.lineno}"
        lines = message.strip().splitlines() or [""]
        line = lines[-1] if "\n" in message and not getattr(report.longrepr, "reprcrash", None) else lines[0]
        self.cases[report.nodeid] = Case(report.nodeid, status, seconds, line, place)
