"""Run pytest on the tests among step.inputs["srcs"] and write each test's result."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatch
from typing import Any

import pytest

from modelbuild.errors import did_you_mean
from modelbuild.step import Progress, Step, StepError, namesakes
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
    test_filter = step.params.get("filter", "")
    by_id = "::" in test_filter or test_filter.partition("[")[0].endswith(".py")
    plugin = _ShardPlugin(shard, count, step.progress, test_filter if by_id else "")
    selected = ["-k", test_filter] if test_filter and not by_id else []
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
    code = pytest.main([*own, *plugins, *step.params["args"], *selected, *tests], plugins=[plugin])
    if selected and code == pytest.ExitCode.USAGE_ERROR:
        write_report(step, [], unmatched=f"'{test_filter}' is no expression that pytest's -k accepts")
        return
    if code in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERNAL_ERROR):
        raise StepError(f"pytest ended with {pytest.ExitCode(code).name.lower().replace('_', ' ')}")
    none = test_filter and not plugin.matched and not any(each.status == "failed" for each in plugin.cases.values())
    write_report(
        step,
        [] if none else list(plugin.cases.values()),
        reason="pytest found no test in this shard",
        unmatched=f"no case matches '{test_filter}'{did_you_mean(test_filter, plugin.names)}" if none else "",
    )


class _ShardPlugin:
    """A pytest plugin that selects this shard's tests and records their results.

    node_id  the id of a test, class or file: no others are selected; '' for all
    names    the ids of all tests, and their last parts
    matched  whether any test of any shard is selected
    """

    def __init__(self, shard: int, count: int, progress: Progress, node_id: str) -> None:
        self._shard = shard
        self._count = count
        self._node_id = node_id
        self.names: list[str] = []
        self.matched = False
        self._progress = progress
        self._started = self._tests = 0
        self.cases: dict[str, Case] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        """Divide the tests that remain after pytest's own selection by -k."""
        self.names = [name for item in items for name in (item.name, item.nodeid)]
        yield
        if self._node_id:
            items[:] = [item for item in items if _is_below(item.nodeid, self._node_id)]
        self.matched = bool(items)
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

    def pytest_exception_interact(self, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
        """Add a hint to the message of a missing file. pytest calls this after it has logged the report."""
        case = self.cases.get(report.nodeid)
        if case is not None and call.excinfo is not None and (hint := namesakes(call.excinfo.value)):
            self.cases[report.nodeid] = replace(case, message=case.message + hint)

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


def _is_below(test: str, node_id: str) -> bool:
    """Return whether a test's id has the parts of a node id: a file, class or function, or a variant of a function."""
    place, wanted = (f"/{text}".replace("::", "/") for text in (test, node_id))
    return place.endswith(wanted) or f"{wanted}/" in place or f"{wanted}[" in place
