"""Runs tests among other actions: several times where that is asked for; only what passed at once is kept."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from modelbuild.actions import ActionResult, Digest, FileEntry
from modelbuild.execution.executor import Executor, Outcome, Request
from modelbuild.store.interface import Store
from modelbuild.testing.report import TestReport, read_report

# Characters that are shown of what a test printed.
_MOST = 20_000


@dataclass(frozen=True, slots=True)
class Attempts:
    """How a test's action went: the report of its last run, or of the first that failed, and what that printed."""

    report: TestReport
    output: str = ""
    seconds: float = 0.0
    runs: int = 1
    passed: int = 0


class TestExecutor:
    """Wraps the executor that runs actions.

    reports   output that is the report, by the id of each test's action
    attempts  how often each may be tried until it passes
    runs      how often each is run; it passes when every run does
    """

    __test__ = False  # for pytest

    def __init__(
        self, inner: Executor, store: Store, reports: Mapping[str, str], attempts: Mapping[str, int], runs: int
    ) -> None:
        self._inner = inner
        self._store = store
        self._reports = reports
        self._attempts = attempts
        self._runs = runs
        self._lock = threading.Lock()
        self.ended: dict[str, Attempts] = {}

    def run(self, request: Request) -> Outcome:
        name = request.action.id
        if name not in self._reports:
            return self._inner.run(request)
        most = max(self._runs, self._attempts[name])
        found: list[tuple[Outcome, Attempts]] = []
        while len(found) < most:
            found.append(self._run(request))
            if self._runs == 1 and found[-1][1].report.status != "failed":
                break
        passed = sum(each.report.status == "passed" for _, each in found)
        bad = [pair for pair in found if pair[1].report.status == "failed"]
        # Of several runs the first failure tells; of several attempts the last one counts.
        outcome, ended = bad[0] if bad and self._runs > 1 else found[-1]
        seconds = sum(each.seconds for _, each in found)
        with self._lock:
            self.ended[name] = replace(ended, runs=len(found), passed=passed, seconds=seconds)
        return replace(outcome, keep=passed == len(found))

    def close(self) -> None:
        self._inner.close()

    def _run(self, request: Request) -> tuple[Outcome, Attempts]:
        """One run. One that came to no end yields a report of that, so that it stops no other test."""
        outcome = self._inner.run(request)
        output = "".join(self._text(digest) for digest in (outcome.stdout, outcome.stderr))
        name = self._reports[request.action.id]
        if outcome.result is None:
            lines = outcome.problem.strip().splitlines() or ["failed"]
            report = TestReport("failed", timed_out(lines[-1]))
            return self._instead(outcome, request, name), Attempts(report, output)
        value = outcome.result.output(name)
        assert isinstance(value, FileEntry)
        report = read_report(self._store.read_bytes(value.digest))
        return outcome, Attempts(report, output, outcome.result.seconds)

    def _instead(self, outcome: Outcome, request: Request, name: str) -> Outcome:
        nothing = FileEntry(self._store.put_bytes(b""))
        outputs = tuple((output.name, nothing) for output in request.action.outputs)
        return replace(outcome, result=ActionResult(outputs, outcome.stdout, outcome.stderr))

    def _text(self, digest: Digest | None) -> str:
        text = self._store.read_bytes(digest).decode(errors="replace") if digest else ""
        return text if len(text) <= _MOST else "...\n" + text[-_MOST:]


def timed_out(problem: str) -> str:
    """Tests are ended by SIGALRM when their time is over."""
    return "took longer than its timeout" if problem == "killed by SIGALRM" else problem
