"""Tests and failed actions as JUnit XML."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from modelbuild.events import Event, TestFinished
from modelbuild.report.progress import BuildProgress
from modelbuild.user_files import check_file, write_file

# Characters not allowed in XML.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class JUnit:
    """Collects events; close() writes the file. Each test target is a test suite, and the failed actions are another
    test suite. Both raise as write_file does."""

    def __init__(self, path: Path) -> None:
        check_file(path)
        self._path = path
        self._root = ElementTree.Element("testsuites", name="modelbuild")
        self._progress = BuildProgress()

    def emit(self, event: Event) -> None:
        self._progress.add(event)
        if isinstance(event, TestFinished):
            self._test(event)

    def close(self) -> None:
        skipped = self._progress.skipped.values()
        if skipped:
            suite = self._suite("targets", [("failed", 0.0) for _ in skipped])
            for target in skipped:
                _add(_case(suite, target.label, target.label, 0.0), "failure", target.problem, target.problem)
        failed = [event for event in self._progress.actions.values() if event.status == "failed"]
        if failed:
            suite = self._suite("actions", [("failed", each.seconds) for each in failed])
            for each in failed:
                case = _case(suite, each.owner, each.id, each.seconds)
                _add(case, "failure", each.problem.strip().rpartition("\n")[2], each.problem)
        ElementTree.indent(self._root)
        write_file(self._path, ElementTree.tostring(self._root, "utf-8", xml_declaration=True))

    def _test(self, test: TestFinished) -> None:
        cases = [(case.name, case.status, case.seconds, case.message, case.place) for case in test.cases]
        if not cases or (test.status == "failed" and all(status != "failed" for _, status, *_ in cases)):
            # No case shows this result: the test was aborted, or a skip counts as a failure.
            cases.append((test.label, test.status, test.seconds, test.reason, ""))
        suite = self._suite(test.label, [(status, seconds) for _, status, seconds, _, _ in cases])
        for name, status, seconds, message, place in cases:
            case = _case(suite, test.label, name, seconds)
            if status == "failed":
                _add(case, "failure", message, f"{place}: {message}" if place else message)
            elif status == "not_run":
                _add(case, "skipped", message)
        if test.output:
            ElementTree.SubElement(suite, "system-out").text = _clean(test.output)

    def _suite(self, name: str, cases: list[tuple[str, float]]) -> ElementTree.Element:
        statuses = [status for status, _ in cases]
        return ElementTree.SubElement(
            self._root,
            "testsuite",
            name=name,
            tests=str(len(cases)),
            failures=str(statuses.count("failed")),
            errors="0",
            skipped=str(statuses.count("not_run")),
            time=f"{sum(seconds for _, seconds in cases):.3f}",
        )


def _case(suite: ElementTree.Element, owner: str, name: str, seconds: float) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=owner, name=_clean(name), time=f"{seconds:.3f}")


def _add(case: ElementTree.Element, tag: str, message: str, text: str = "") -> None:
    ElementTree.SubElement(case, tag, message=_clean(message)).text = _clean(text) or None


def _clean(text: str) -> str:
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text)
