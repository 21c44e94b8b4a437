"""A build as Markdown, for the summary of a CI job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from modelbuild.events import Event
from modelbuild.markdown import markdown, markdown_code
from modelbuild.report.files.comparison import Comparison, Measure, by_device
from modelbuild.report.progress import BuildProgress
from modelbuild.report.text import summary
from modelbuild.testing.text import test_summary
from modelbuild.user_files import append_file, check_file
from modelbuild.wording import number

_MOST = 50  # rows of a table


class Markdown:
    """Collects events; close() appends to the file, with the measures of `comparison`. Both raise as append_file
    does."""

    def __init__(self, path: Path, comparison: Comparison) -> None:
        check_file(path)
        self._path = path
        self._comparison = comparison
        self._progress = BuildProgress()

    def emit(self, event: Event) -> None:
        self._progress.add(event)
        self._comparison.add(event)

    def close(self) -> None:
        append_file(self._path, "\n".join(self._lines()) + "\n")

    def _lines(self) -> Iterator[str]:
        progress = self._progress
        yield f"## modelbuild: {'passed' if progress.ok else 'failed'}"
        yield ""
        if progress.finished is not None:
            yield summary(progress)
        elif progress.aborted is not None:
            yield _spaced(progress.aborted.problem)
        yield from self._failures()
        yield from self._tests()
        yield from self._measures()

    def _failures(self) -> Iterator[str]:
        skipped = self._progress.skipped.values()
        if skipped:
            yield from ("", "### Not loaded", "", "| target | why |", "| --- | --- |")
            for each in list(skipped)[:_MOST]:
                yield f"| {markdown_code(each.label)} | {_spaced(each.problem)} |"
        failed = [event for event in self._progress.actions.values() if event.status == "failed"]
        if failed:
            yield from ("", "### Failed actions", "", "| action | why |", "| --- | --- |")
            for event in failed[:_MOST]:
                yield f"| {markdown_code(event.id)} | {markdown(event.problem.strip().rpartition(chr(10))[2])} |"

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
                yield f"| {markdown_code(test.label)} | {how} | {'<br>'.join(map(_spaced, failed or [test.reason]))} |"

    def _measures(self) -> Iterator[str]:
        rows = list(self._comparison.measures())
        yield from self._table("On devices", by_device(rows))
        yield from self._table("Sizes and latencies", [row for row in rows if not row.device])

    def _table(self, title: str, rows: Sequence[Measure]) -> Iterator[str]:
        if rows:
            compared = any(row.before is not None for row in rows)
            columns = f" {markdown(self._comparison.title)} | change |" if compared else ""
            yield from (
                "",
                f"### {title}",
                "",
                f"| | | now |{columns}",
                "| --- | --- | --- |" + "---|" * (2 * compared),
            )
            for row in rows[:_MOST]:
                known = "" if row.before is None else number(row.before)
                change = row.change + (f" ({row.unsure})" if row.unsure else "")
                cells = f" {known} | {change} |" if compared else ""
                where = f"{markdown_code(row.device)} " if row.device else ""
                yield f"| {where}{markdown_code(row.subject)} | {markdown(row.title)} | {number(row.now)} |{cells}"


def _spaced(text: str) -> str:
    return markdown(text.replace("\n", " "))
