"""Files for CI from synthetic events: JUnit, annotations, summary, trace and build events."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modelbuild import events
from modelbuild.actions import Place
from modelbuild.events import (
    ActionFinished,
    ActionStarted,
    BuildFinished,
    BuildStarted,
    Event,
    TargetBuilt,
)
from modelbuild.report.files.action_times import ActionTimes, critical_path
from modelbuild.report.files.build_events import BuildEvents, name_of
from modelbuild.report.files.comparison import Comparison
from modelbuild.report.files.github import GitHubAnnotations
from modelbuild.report.files.junit import JUnit
from modelbuild.report.files.markdown import Markdown
from modelbuild.report.files.trace import Trace


def ran(name: str, seconds: float, at: float, makers: tuple[str, ...] = (), worker: int = 0) -> ActionFinished:
    return ActionFinished(
        name, f"//m:{name}", "make", "make", "ran", seconds, worker=worker, makers=makers, key="k", at=at
    )


FAILED = ActionFinished(
    "bad", "//m:bad", "export", "export", "failed", problem="Traceback\nm/net.py:7: it broke | badly", at=9.0
)
TEST = events.TestFinished(
    "//m:t",
    "cpu",
    "failed",
    "1 of 3 cases failed",
    seconds=2.0,
    cases=(
        events.TestCase("one", "passed", 0.5),
        events.TestCase("two", "failed", 1.0, "wrong <&> \x00", "m/test_t.py:3"),
        events.TestCase("three", "not_run", 0.0, "no GPU"),
    ),
    location="m/BUILD.toml:4:1",
    measures={"latency_ms": 3.0},
    output="printed",
)
EVENTS: list[Event] = [
    events.Loaded(1, at=0.5),
    BuildStarted(("//m:a",), 4, 2, at=1.0),
    events.CacheUsed("a", "lookup", 0.25, at=1.25),
    events.CacheUsed("b", "lookup", 0.5, at=1.375),
    events.CacheUsed("a", "store", 0.125, at=3.0),
    ActionStarted("a", "//m:a", "make", "make", at=1.0),
    events.ActionProgress("a", "kernel 4 of 17", at=2.0),
    ran("a", 2.0, 3.0),
    ran("b", 1.0, 2.0, worker=1),
    ran("c", 3.0, 6.0, ("a", "b")),
    ActionFinished("d", "//m:d", "make", "make", "cached", makers=("c",), at=6.5),
    FAILED,
    TargetBuilt("//m:a", "cpu", ("out/a", "out/a.json")),
    TargetBuilt("//m:signature", "cpu", ("out/signature.json", "out/debug.json")),
    TEST,
    events.TestFinished("//m:u", "cpu", "not_run", "no GPU", location="m/BUILD.toml:9:1"),
    events.TestFinished("//m:v", "cpu", "failed", "took longer than its timeout", location="m/BUILD.toml:19:1"),
    BuildFinished(9.5, at=10.0),
]


def played(reporter: Any) -> None:
    for event in EVENTS:
        reporter.emit(event)
    reporter.close()


def test_junit(tmp_path: Path, ci_formats: Any) -> None:
    played(JUnit(tmp_path / "j.xml"))
    root = ci_formats.check_junit(tmp_path / "j.xml")
    assert [suite.get("name") for suite in root] == ["//m:t", "//m:u", "//m:v", "actions"]
    failure = root.find("testsuite[@name='//m:t']/testcase[@name='two']/failure")
    assert failure is not None
    assert failure.get("message") == "wrong <&> \N{REPLACEMENT CHARACTER}"
    assert (failure.text or "").startswith("m/test_t.py:3: ")
    assert root.findtext("testsuite/system-out") == "printed"
    action = root.find("testsuite[@name='actions']/testcase/failure")
    assert action is not None
    assert action.get("message") == "m/net.py:7: it broke | badly"


def test_annotations_name_the_line_that_is_to_blame() -> None:
    out = io.StringIO()
    played(GitHubAnnotations(out, "ws/"))
    assert out.getvalue().splitlines() == [
        "::error file=ws/m/net.py,line=7,title=export //m%3Abad::m/net.py:7: it broke | badly",
        "::error file=ws/m/test_t.py,line=3,title=//m%3At%3A two::wrong <&> \\x00",
        "::notice file=ws/m/BUILD.toml,line=9,col=1,title=//m%3Au was not run::no GPU",
        "::error file=ws/m/BUILD.toml,line=19,col=1,title=//m%3Av::took longer than its timeout",
    ]


def test_summary(tmp_path: Path) -> None:
    path = tmp_path / "s.md"
    path.write_text("before\n")
    played(markdown(path, lambda subject, name: 2.0 if name == "latency_ms" else None, values(1, 2, 3), lambda _: 1000))
    lines = path.read_text().splitlines()
    assert lines[:2] == ["before", "## modelbuild: failed"]
    assert "| `bad` | m/net.py:7: it broke \\| badly |" in lines
    assert "### 3 tests: 2 failed, 1 not run" in lines
    assert r"| `//m:t` | failed | two: wrong \<\&\> \\x00 |" in lines
    assert "| `//m:t (cpu)` | latency (ms) | 3 | 2 | +50.0% (within noise) |" in lines
    assert "| `//m:a (cpu)` | size (bytes) | 1,000 |  |  |" in lines
    assert "signature" not in path.read_text()  # documents alone have no size worth a line
    alone = tmp_path / "alone.md"
    played(markdown(alone, lambda subject, name: None, values(), lambda _: 1000))
    assert "| `//m:a (cpu)` | size (bytes) | 1,000 |" in alone.read_text().splitlines()  # no columns without a base


@pytest.mark.parametrize(
    ("earlier", "mark"),
    [((1.9, 2.1, 2.0), ""), ((2.0, 2.0), " (few values)"), ((9, 2, 2, 2), " (within noise)")],
)
def test_a_summary_marks_changes_that_earlier_values_do_not_support(
    tmp_path: Path, earlier: tuple[float, ...], mark: str
) -> None:
    path = tmp_path / "s.md"
    played(markdown(path, lambda subject, name: 2.0, values(*earlier), lambda _: 3))
    lines = path.read_text().splitlines()
    assert f"| `//m:t (cpu)` | latency (ms) | 3 | 2 | +50.0%{mark} |" in lines
    assert "| `//m:a (cpu)` | size (bytes) | 3 | 2 | +50.0% |" in lines  # a size does not vary


def test_a_summary_lists_devices_by_their_worst_regression(tmp_path: Path) -> None:
    path = tmp_path / "s.md"
    comparison = Comparison(lambda subject, name: 2.0, values(1.9, 2.0, 2.1), lambda _: 3)
    reporter = Markdown(path, comparison)
    for name, latency in (("a", 2.1), ("b", 3.0), ("c", 4.0)):
        measures = {"latency_ms": latency, "bytes": 5.0} | ({"latency_ms_decode": 2.2} if name == "a" else {})
        reporter.emit(events.TestFinished(f"//m:{name}", "orin", "passed", measures=measures, device="//d:orin"))
    reporter.close()
    text = path.read_text()
    place = text.index("### On devices")
    rows = [line for line in text[place : text.index("### Sizes and latencies")].splitlines() if "orin" in line]
    assert rows == [
        "| `//d:orin` `//m:c (orin)` | latency (ms) | 4 | 2 | +100.0% |",
        "| `//d:orin` `//m:b (orin)` | latency (ms) | 3 | 2 | +50.0% |",
        "| `//d:orin` `//m:a (orin)` | latency (ms) | 2.1 | 2 | +5.0% (within noise) |",
        "| `//d:orin` `//m:a (orin)` | latency of decode (ms) | 2.2 | 2 | +10.0% (within noise) |",
    ]
    assert text.count("| `//m:a (orin)` | size (bytes) | 5 | 2 | +150.0% |") == 1


def markdown(path: Path, *compared: Any) -> Markdown:
    return Markdown(path, Comparison(*compared))


def values(*earlier: float) -> Callable[[str, str], tuple[float, ...]]:
    return lambda subject, name: earlier


def test_trace(tmp_path: Path, ci_formats: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelbuild.report.files.trace.time.monotonic", lambda: 0.0)  # when the events' clock began
    played(Trace(tmp_path / "t.json"))
    tracks = ci_formats.check_trace(tmp_path / "t.json")
    others = {"phases", "found in a cache", "critical path"}
    assert others | {"worker 0", "worker 1", "cache 0", "cache 1"} == tracks.keys()
    on = {name: [each["name"] for each in events] for name, events in tracks.items()}
    assert on["phases"][:3] == ["loading", "analysis", "execution"]
    assert on["cache 0"] == ["lookup b", "store a"]
    assert on["cache 1"] == ["lookup a"]
    assert on["found in a cache"] == ["make //m:d"]
    assert on["critical path"] == ["make //m:a", "make //m:c"]


def test_trace_has_the_parts_of_an_actions_work_inside_it(
    tmp_path: Path, ci_formats: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelbuild.report.files.trace.time.monotonic", lambda: 0.0)
    trace = Trace(tmp_path / "t.json")
    for event in (
        ActionStarted("a", "//m:a", "make", "make", at=1.0),
        events.ActionProgress("a", "pass 1 of 2", at=1.5),
        events.ActionProgress("a", "pass 2 of 2", at=2.0),
        ran("a", 3.0, 4.125),
    ):
        trace.emit(event)
    trace.close()
    slices = ci_formats.check_trace(tmp_path / "t.json")["worker 0"]
    assert [(each["name"], each["ts"] / 1e6, each["dur"] / 1e6) for each in slices] == [
        ("make //m:a", 1.0, 3.0),
        ("pass 1 of 2", 1.5, 0.5),
        ("pass 2 of 2", 2.0, 2.0),
    ]


def test_trace_tells_which_worker_ran_it_elsewhere(tmp_path: Path) -> None:
    trace = Trace(tmp_path / "t.json")
    here, there = ran("a", 1, 1.0), dataclasses.replace(ran("b", 1, 2.0), place=Place("worker-7", queued=0.5))
    for event in (here, there):
        trace.emit(event)
    trace.close()
    slices = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    places = {each["args"]["id"]: each["args"].get("place") for each in slices if "id" in each.get("args", {})}
    assert places == {"a": None, "b": dataclasses.asdict(there.place)}


def test_trace_shows_the_start_of_the_worker_that_the_critical_path_waited_for(
    tmp_path: Path, ci_formats: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelbuild.report.files.trace.time.monotonic", lambda: 0.0)
    trace = Trace(tmp_path / "t.json")
    trace.emit(ActionStarted("a", "//m:a", "make", "make", at=1.0))
    trace.emit(events.ActionProgress("a", "starting a worker with torch", waiting=True, at=1.0))
    trace.emit(events.WorkerReady(("torch", "executorch.exir"), 3.0, at=4.0))
    trace.emit(events.ActionProgress("a", "", waiting=True, at=4.0))
    trace.emit(events.WorkerReady((), 1.5, at=5.0))
    trace.emit(ran("a", 2.25, 6.125))  # the worker began before the engine read that it is ready
    trace.emit(BuildFinished(7.0, at=7.0))
    trace.close()
    tracks = ci_formats.check_trace(tmp_path / "t.json")
    spans = {name: [(e["name"], e["ts"], e["dur"]) for e in found] for name, found in tracks.items()}
    name = "start a worker with torch, executorch.exir"
    start = (name, 1_000_000, 3_000_000)
    assert spans["critical path"] == [(name, 1_000_000, 2_875_000), ("make //m:a", 3_875_000, 2_250_000)]
    assert (spans["starts of workers 0"], spans["starts of workers 1"]) == (
        [start],
        [("start a worker", 3_500_000, 1_500_000)],
    )
    assert spans["worker 0"] == [("make //m:a", 3_875_000, 2_250_000)]


def test_a_worker_that_starts_during_an_action_of_the_critical_path_follows_it_there() -> None:
    times = ActionTimes()
    for event in (
        ActionStarted("a", "//m:a", "make", "make", at=1.0),
        ran("a", 3.0, 4.0),
        ActionStarted("b", "//m:b", "make", "make", at=4.0),
        events.WorkerReady((), 0.25, at=4.5),
        events.WorkerReady(("torch",), 4.0, at=6.0),
        events.ActionProgress("b", "", waiting=True, at=6.0),
        ran("b", 1.0, 7.0, ("a",)),
    ):
        times.add(event)
    assert [(start, end) for _, start, end in times.critical()] == [(1, 4), (4, 6), (6, 7)]


def test_critical_path_is_the_longest_chain() -> None:
    actions = {each.id: each for each in (ran("x", 9.0, 9.0), ran("y", 5.0, 5.0), ran("z", 5.0, 10.0, ("y",)))}
    assert [each.id for each in critical_path(actions)] == ["y", "z"]
    assert critical_path({}) == []


def test_build_events_are_as_documented(tmp_path: Path, repository: Path, ci_formats: Any) -> None:
    played(BuildEvents(tmp_path / "e.jsonl"))
    lines = ci_formats.check_events(tmp_path / "e.jsonl", repository)
    assert [line["event"] for line in lines] == ["stream_started", *(name_of(type(event)) for event in EVENTS)]
    assert lines[15]["cases"][1]["place"] == "m/test_t.py:3"


def test_every_kind_of_event_is_documented(repository: Path, ci_formats: Any) -> None:
    kinds = [k for k in vars(events).values() if isinstance(k, type) and issubclass(k, Event) and k is not Event]
    found = {
        name_of(kind): {f.name for f in dataclasses.fields(kind) if f.metadata != events.INSIDE} - {"at"}
        for kind in kinds
    }
    known = ci_formats.documented_events(repository)
    assert known.pop("stream_started") == {"version", "modelbuild", "time"}
    assert found == known


def test_a_file_that_cannot_be_written_is_told_before_the_build(tmp_path: Path) -> None:
    from modelbuild.cli.recording import Recording
    from modelbuild.cli.settings import Settings
    from modelbuild.errors import UsageError

    with pytest.raises(UsageError, match="No such file or directory"):
        Recording(build_event_json=Path("no/such/folder")).around(None, None, Settings(tmp_path))  # type: ignore[arg-type]
