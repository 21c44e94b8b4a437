"""Texts with line breaks, control characters and bytes that are not UTF-8 break no format that is written."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from modelbuild import events
from modelbuild.build_record.target_reads import TargetReads, read_reads, write_reads
from modelbuild.events import (
    ActionFinished,
    BuildAborted,
    BuildFinished,
    BuildStarted,
    Event,
    Notice,
    TargetBuilt,
    TargetFailed,
)
from modelbuild.lines import is_line, one_line
from modelbuild.report.files.build_events import BuildEvents
from modelbuild.report.files.comparison import Comparison
from modelbuild.report.files.github import GitHubAnnotations
from modelbuild.report.files.junit import JUnit
from modelbuild.report.files.markdown import Markdown
from modelbuild.report.files.trace import Trace
from modelbuild.report.json_object import JsonReporter
from modelbuild.report.page.recorder import About, Page
from modelbuild.report.plain import PlainReporter
from modelbuild.testing.report import parse_report, read_report
from tests.hostile import NASTY, cases, mutated, run_property
from tests.report.browser import data_of

TEXTS = st.sampled_from((*NASTY, "a\ud800b", "::error::x", "a|b`c`", "]]>", "%0A", "a\r\nb")) | st.text(max_size=12)


@st.composite
def events_of(draw: st.DrawFn) -> list[Event]:
    """Return a build in which everything except labels has a hostile text."""
    report = json.dumps(
        {
            "version": 1,
            "status": draw(st.sampled_from(("passed", "failed", "not_run"))),
            "reason": draw(TEXTS),
            "cases": [
                {"name": draw(TEXTS), "status": draw(st.sampled_from(("passed", "failed", "not_run")))}
                | {"message": draw(TEXTS), "place": draw(TEXTS), "seconds": draw(st.floats(0, 9))}
                for _ in range(draw(st.integers(0, 3)))
            ],
            "measures": {draw(TEXTS): 1.5, "latency_ms": 2.0},
        }
    )
    parsed = parse_report(report.encode())
    problem, printed = draw(TEXTS), draw(TEXTS)
    return [
        BuildStarted(("//m:a",), 1),
        ActionFinished("//m:a#x", "//m:a", "x", "", "failed", 1.0, problem, printed, printed, "k"),
        TargetBuilt("//m:b", "default", ("modelbuild-out/default/m/b/b c.txt",)),
        TargetFailed("//m:a", "default", "//m:a#x"),
        events.TestFinished(
            "//m:t", "default", parsed.status, parsed.reason, 1.0, cases=parsed.cases, measures=parsed.measures,
            location="m/BUILD.toml:1:1", output=printed,
        ),
        Notice(one_line(draw(TEXTS))),
        draw(st.sampled_from((BuildFinished(1.0), BuildAborted(draw(TEXTS))))),
    ]  # fmt: skip


def told(reporter: Any, told_of: list[Event]) -> None:
    for event in told_of:
        reporter.emit(event)
    reporter.close()


@cases(100, 5_000)
def test_every_record_of_a_build_keeps_its_format(
    tmp_path: Path, ci_formats: Any, repository: Path, examples: int
) -> None:
    def holds(told_of: list[Event]) -> None:
        stream = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
        files = {name: tmp_path / name for name in ("e.jsonl", "t.json", "j.xml", "s.md", "p.html")}
        for path in files.values():
            path.unlink(missing_ok=True)
        told(BuildEvents(files["e.jsonl"]), told_of)
        assert len(ci_formats.check_events(files["e.jsonl"], repository)) == len(told_of) + 1
        told(Trace(files["t.json"]), told_of)
        ci_formats.check_trace(files["t.json"])
        told(JUnit(files["j.xml"]), told_of)
        ci_formats.check_junit(files["j.xml"])
        compared = (lambda subject, name: 1.0, lambda subject, name: (), lambda outputs: 5)
        told(Markdown(files["s.md"], Comparison(*compared)), told_of)
        for line in files["s.md"].read_text().split("\n"):
            assert is_line(line)
        about = About("ws", "modelbuild build", None, False, lambda actions: {}, lambda targets: (), 0.0)
        told(Page(files["p.html"], about, Comparison(*compared)), told_of)
        assert len(data_of(files["p.html"])["build"]["tests"]) == 1
        told(GitHubAnnotations(stream), told_of)
        for line in _written(stream):
            assert line.startswith(("::error ", "::notice ", "::warning "))
        told(JsonReporter(stream, io.StringIO()), told_of)
        (whole,) = _written(stream)
        assert json.loads(whole)["version"] == 1

    run_property(examples, events_of(), holds)


def _written(stream: io.TextIOWrapper) -> list[str]:
    """Return the lines since the last call."""
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    text = buffer.getvalue().decode()
    buffer.seek(0)
    buffer.truncate()
    return text.splitlines()


@cases(100, 2_000)
def test_each_case_of_a_test_is_one_line_of_the_output(examples: int) -> None:
    def holds(told_of: list[Event]) -> None:
        (test,) = (each for each in told_of if isinstance(each, events.TestFinished))
        out = io.StringIO()
        told(PlainReporter(out, out), [replace(test, output=""), BuildFinished(1.0)])
        failed = sum(case.status == "failed" for case in test.cases)
        left = sum(case.status == "not_run" for case in test.cases) if test.status != "not_run" else 0
        assert len(out.getvalue().split("\n")) == 1 + failed + left + 2 + 1  # the test, its cases, two sums, the end
        assert all(map(is_line, out.getvalue().split("\n")))

    run_property(examples, events_of(), holds)


REPORT: dict[str, Any] = {
    "version": 1,
    "status": "failed",
    "reason": "r",
    "cases": [{"name": "c", "status": "failed", "seconds": 1.5, "message": "m", "place": "a.py:3"}],
    "measures": {"latency_ms": 1.5},
}


@cases(200, 5_000)
def test_any_written_report_is_read(examples: int) -> None:
    def holds(tables: dict[str, Any]) -> None:
        report = read_report(json.dumps(tables, default=repr).encode())
        assert report.status in ("passed", "failed", "not_run")
        assert all(value - value == 0 for value in report.measures.values())
        assert all(is_line(text) for text in (report.reason, *(case.name for case in report.cases)))

    run_property(examples, mutated(REPORT), holds)


@pytest.mark.parametrize("text", [b"", b"\xff", b"[]", b"[" * 100_000, b'{"version": 2}', b"9" * 5000, b"null"])
def test_invalid_reports_are_failures(text: bytes) -> None:
    report = read_report(text)
    assert report.status == "failed"
    assert report.reason.startswith("malformed report: ")
    assert is_line(report.reason)


@cases(100, 2_000)
def test_reads_keep_whatever_is_written_down(tmp_path: Path, examples: int) -> None:
    """Hostile texts of files and folders in an odd workspace, and of parameters; labels are ordinary."""

    def holds(text: str) -> None:
        reads = TargetReads({"//a:b": [text]}, {"//a:b": [text]}, {"//a:b": 1})
        write_reads(tmp_path / "record", reads, 7)
        assert read_reads(tmp_path / "record", 7) == reads

    run_property(examples, TEXTS, holds)


@pytest.mark.parametrize("text", ["a\nb", "a\0b", "a\x1bb", "a\u2028b", "a\x85b", "a\ud800b", "a\rb", "a\x7fb"])
def test_several_lines_are_shown_on_one(text: str) -> None:
    assert not is_line(text)
    assert is_line(one_line(text))
    assert one_line(text) == repr(text)[1:-1]


@pytest.mark.parametrize("text", ["", "a b", "\u00a0\u202fAM.png", "é\U0001f600", "'\"\\"])
def test_single_lines_are_unchanged(text: str) -> None:
    assert is_line(text)
    assert one_line(text) == text
