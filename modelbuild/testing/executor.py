"""Run tests among other actions, several times on request; only results that passed on the first run are cached."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from modelbuild.actions import ActionResult, FileEntry
from modelbuild.execution.executor import ActionRequest, Executor, Outcome
from modelbuild.lines import without_noise
from modelbuild.store.interface import Store
from modelbuild.testing.report import TestReport, read_report

# Maximum number of characters of a test's output that are printed.
_MOST = 20_000


@dataclass(frozen=True, slots=True)
class Attempts:
    """The runs of a test's action: the report and output of the last run, or of the first failed run."""

    report: TestReport
    output: str = ""
    seconds: float = 0.0
    runs: int = 1
    passed: int = 0


class TestExecutor:
    """Wraps the executor that runs actions.

    reports   name of the output with the report, by the id of each test's action
    attempts  maximum number of runs until a test passes
    runs      number of runs of each test; it passes if all of them pass
    """

    __test__ = False  # pytest would collect it as a test class

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

    def run(self, request: ActionRequest) -> Outcome:
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
        # With several runs, the first failure counts; with several attempts, the last attempt.
        outcome, ended = bad[0] if bad and self._runs > 1 else found[-1]
        seconds = sum(each.seconds for _, each in found)
        with self._lock:
            self.ended[name] = replace(ended, runs=len(found), passed=passed, seconds=seconds)
        return replace(outcome, keep=passed == len(found))

    def close(self) -> None:
        self._inner.close()

    def _run(self, request: ActionRequest) -> tuple[Outcome, Attempts]:
        """Run a test once. An aborted run returns a report about the abort, so it stops no other test."""
        outcome = self._inner.run(replace(request, limit=None))  # a test has its own timeout
        output = output_text(self._store, outcome)
        name = self._reports[request.action.id]
        if outcome.result is None:
            lines = outcome.problem.strip().splitlines() or ["failed"]
            report = TestReport("failed", timed_out(lines[-1]))
            return self._instead(outcome, request, name), Attempts(report, output)
        value = outcome.result.output(name)
        assert isinstance(value, FileEntry)
        report = read_report(self._store.read_bytes(value.digest))
        return outcome, Attempts(report, output, outcome.result.seconds)

    def _instead(self, outcome: Outcome, request: ActionRequest, name: str) -> Outcome:
        nothing = FileEntry(self._store.put_bytes(b""))
        outputs = tuple((output.name, nothing) for output in request.action.outputs)
        return replace(outcome, result=ActionResult(outputs, outcome.stdout, outcome.stderr))


def output_text(store: Store, ended: Outcome | ActionResult) -> str:
    """Return the text that an action printed: the last characters of its stdout, then of its stderr."""
    digests = [digest for digest in (ended.stdout, ended.stderr) if digest]
    texts = [without_noise(store.read_bytes(digest).decode(errors="replace")) for digest in digests]
    return "".join(text if len(text) <= _MOST else "...\n" + text[-_MOST:] for text in texts)


def timed_out(problem: str) -> str:
    """Return the failure's text. A test that exceeds its timeout is killed by SIGALRM."""
    return "took longer than its timeout" if problem == "killed by SIGALRM" else problem
