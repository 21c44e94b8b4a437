"""A build as Markdown, for the summary of a CI job."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from modelbuild.events import Event, TargetBuilt, TestFinished
from modelbuild.history.regressions import noise
from modelbuild.ids import TargetId
from modelbuild.lines import one_line
from modelbuild.report.progress import Progress
from modelbuild.report.text import summary
from modelbuild.testing.text import test_summary
from modelbuild.wording import number

# Return the base's value of (subject, name), or None; and earlier values. See modelbuild.history.
Before: TypeAlias = Callable[[str, str], float | None]
Earlier: TypeAlias = Callable[[str, str], Sequence[float]]

_SHOWN = {"bytes": "size (bytes)", "latency_ms": "latency (ms)", "memory": "memory (bytes)", "delegates": "delegates"}
_MOST = 50  # rows of a table


class Markdown:
    """Collects events; close() appends to the file.

    before   the values that the build is compared with, in a column called `title`
    earlier  values by which a change is marked as noise
    sizes    returns bytes of outputs
    """

    def __init__(
        self,
        path: Path,
        before: Before,
        earlier: Earlier,
        sizes: Callable[[Sequence[str]], int],
        title: str = "before",
    ) -> None:
        self._path = path
        self._before = before
        self._earlier = earlier
        self._title = title
        self._sizes = sizes
        self._lock = threading.Lock()
        self._progress = Progress()
        self._rows: dict[str, dict[str, float]] = {}
        self._written = False

    def emit(self, event: Event) -> None:
        with self._lock:
            self._progress.add(event)
            match event:
                case TargetBuilt() if event.outputs:
                    size = float(self._sizes(event.outputs))
                    self._row(event).update(bytes=size)
                case TestFinished() if event.measures:
                    self._row(event).update(event.measures)

    def _row(self, event: TargetBuilt | TestFinished) -> dict[str, float]:
        return self._rows.setdefault(TargetId.of(event.label, event.config), {})

    def close(self) -> None:
        with self._lock:
            if not self._written:
                self._written = True
                with suppress(OSError), self._path.open("a", encoding="utf-8", errors="backslashreplace") as file:
                    file.write("\n".join(self._lines()) + "\n")

    def _lines(self) -> Iterator[str]:
        progress = self._progress
        yield f"## modelbuild: {'passed' if progress.ok else 'failed'}"
        yield ""
        if progress.finished is not None:
            yield summary(progress)
        elif progress.aborted is not None:
            yield _cell(progress.aborted.problem)
        yield from self._failures()
        yield from self._tests()
        yield from self._measures()

    def _failures(self) -> Iterator[str]:
        skipped = self._progress.skipped.values()
        if skipped:
            yield from ("", "### Not loaded", "", "| target | why |", "| --- | --- |")
            for each in list(skipped)[:_MOST]:
                yield f"| `{each.label}` | {_cell(each.problem)} |"
        failed = [event for event in self._progress.actions.values() if event.status == "failed"]
        if failed:
            yield from ("", "### Failed actions", "", "| action | why |", "| --- | --- |")
            for event in failed[:_MOST]:
                yield f"| `{event.id}` | {_cell(event.problem.strip().rpartition(chr(10))[2])} |"

    def _tests(self) -> Iterator[str]:
        if self._progress.tests:
            yield from (
                "",
                f"### {test_summary(self._progress.tests)}",
                "",
                "| test | result | why |",
                "| --- | --- | --- |",
            )
            order = {"failed": 0, "not_run": 1, "passed": 2}
            for test in sorted(self._progress.tests, key=lambda each: order[each.status])[:_MOST]:
                how = test.status.replace("_", " ") + (" (cached)" if test.cached else "")
                failed = [f"{case.name}: {case.message}" for case in test.cases if case.status == "failed"][:_MOST]
                yield f"| `{test.label}` | {how} | {'<br>'.join(map(_cell, failed or [test.reason]))} |"

    def _measures(self) -> Iterator[str]:
        rows = [
            (subject, name, title, measures[name], self._before(subject, name))
            for subject, measures in self._rows.items()
            for name, title in _SHOWN.items()
            if name in measures
        ]
        if rows:
            compared = any(before is not None for *_, before in rows)
            columns = f" {self._title} | change |" if compared else ""
            yield from (
                "",
                "### Sizes and latencies",
                "",
                f"| | | now |{columns}",
                "| --- | --- | --- |" + "---|" * (2 * compared),
            )
            for subject, name, title, now, before in rows[:_MOST]:
                known = "" if before is None else number(before)
                change = "" if not before or before == now else f"{(now - before) / before:+.1%}"
                unsure = noise(name, self._earlier(subject, name), before, now) if change and before else ""
                change += f" ({unsure})" if unsure else ""
                yield f"| `{subject}` | {title} | {number(now)} |" + (f" {known} | {change} |" if compared else "")


def _cell(text: str) -> str:
    return one_line(text.replace("\n", " ")).replace("|", "\\|")
