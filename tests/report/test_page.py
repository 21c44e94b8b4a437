"""The page of --report, in a real browser: what it shows, and hostile texts in every place."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from modelbuild import events
from modelbuild.cli.page import check_suffix
from modelbuild.errors import UsageError
from modelbuild.events import ActionFinished, Event
from modelbuild.report.files.comparison import Comparison
from modelbuild.report.page.html import VERSION, render
from modelbuild.report.page.recorder import About, Page, Reason
from tests.report.browser import data_of, opened
from tests.script_rule import FILES, SCRIPT
from tests.workspace_builder import Workspace

HOSTILE = (
    "</script><script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\">\u2028&lt;'\"`${1}"
)


def ran(name: str, start: float, seconds: float, makers: tuple[str, ...] = (), worker: int = 0) -> list[Event]:
    owner = name.partition("#")[0] if "#" in name else f"//m:{name}"
    return [
        events.ActionStarted(name, owner, "make", "make", worker, at=start),
        ActionFinished(
            name, owner, "make", "make it", "ran", seconds, key="k", worker=worker, makers=makers, at=start + seconds
        ),
    ]


def write_page(
    path: Path,
    happened: Sequence[Event],
    reasons: Callable[[Mapping[str, ActionFinished]], Mapping[str, Reason]] = lambda actions: {},
    programs: Sequence[Mapping[str, Any]] = (),
    command: str = "modelbuild build //m:all",
    before: float | None = None,
) -> Path:
    about = About("ws", command, "c" * 40, True, reasons, lambda targets: programs, time.time())
    comparison = Comparison(lambda subject, name: before, lambda subject, name: (790, 800, 810), lambda paths: 1000)
    page = Page(path, about, comparison)
    began = time.monotonic()
    for event in happened:
        page.emit(dataclasses.replace(event, at=began + event.at))
    page.close()
    return path


EVENTS: list[Event] = [
    events.BuildStarted(("//m:c",), 6, 2, at=0.0),
    events.WorkerReady(("torch",), 1.5, at=1.5),
    *ran("a", 1.5, 2.0),
    *ran("b", 1.5, 0.5, worker=1),
    *ran("c", 3.5, 1.0, ("a", "b")),
    ActionFinished("d", "//m:d", "make", "make", "cached", makers=("a",), saved=90.0, at=4.0),
    ActionFinished("e", "//m:d", "make", "make", "cached", saved=10.0, fetched=True, at=4.0),
    events.ActionStarted("bad", "//m:bad", "export", "export", at=4.5),
    ActionFinished(
        "bad", "//m:bad", "export", "export", "failed", problem="Traceback\nnet.py:7: it broke", stderr="loud", at=5.0
    ),
    events.TargetBuilt("//m:c", "cpu", ("modelbuild-out/cpu/m/c/c.bin",)),
    events.TargetFailed("//m:bad", "cpu", "bad"),
    events.TestFinished(
        "//m:t",
        "cpu",
        "failed",
        "1 of 2 cases failed",
        seconds=2.0,
        cases=(
            events.TestCase("one", "passed", 0.5),
            events.TestCase("two", "failed", 1.0, "3 of 4 values differ", "m/test_t.py:3"),
        ),
        measures={"latency_ms": 3.0},
        output="printed",
    ),
    events.TestFinished(
        "//m:u",
        "orin",
        "passed",
        measures={"latency_ms": 3.0, "latency_p95_ms": 1200.0, "bytes": 5.0},
        device="//d:orin",
    ),
    events.Notice("something to know"),
    events.BuildFinished(5.5, exit=1, at=5.5),
]
WAITED = [events.ActionProgress("a", "", waiting=True, at=1.5), *EVENTS]


@pytest.fixture(scope="module")
def browser_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("browser")


def test_a_page_shows_totals_failures_times_reasons_tests_and_sizes(tmp_path: Path, browser_folder: Path) -> None:
    started = [EVENTS[0], events.ActionStarted("a", "//m:a", "make", "make", at=0.1)]
    waited = events.ActionProgress("a", "", waiting=True, at=1.6)
    happened = [*started, EVENTS[1], waited, EVENTS[3], *EVENTS[4:]]
    why = {"c": ("changed", ["m/net.py changed (01 -> 02)"]), "d": ("unchanged", ["no input has changed"])}
    page = opened(write_page(tmp_path / "r.html", happened, lambda _: why, before=800.0), browser_folder, "action-2")
    assert page.one("h1").text == "modelbuild build //m:all"
    assert page.one("header").text.startswith("Failed")
    facts = dict(zip([each.text for each in page.one("header").all("dt")], page.one("header").all("dd"), strict=True))
    assert (facts["Exit code"].text, facts["Duration"].text) == ("1", "5.5 s")
    assert facts["Commit"].text == "cccccccccccc with changes"
    sections = page.one("main").all("section")
    assert [each.attributes["id"] for each in sections] == [
        *("failures", "totals", "timeline", "actions", "tests", "devices", "sizes", "targets"),
    ]
    assert [link.attributes["href"] for link in page.one("nav").all("a")] == [
        f"#{s.attributes['id']}" for s in sections
    ]
    failures, totals, timeline, actions, tests, devices, sizes, targets = sections
    assert "net.py:7: it broke" in failures.text
    assert "loud" in failures.text
    assert "two : 3 of 4 values differ ( m/test_t.py:3 )" in failures.text
    assert "1 failed 3 ran 1 cached remotely 1 cached here" in totals.text
    assert "1 min 40 s saved by caches" in totals.text
    assert "something to know" in totals.text
    assert timeline.all("p")[0].text == (
        "The critical path took 4.5 s of 5.0 s: start of a worker with torch (1.5 s) → make //m:a (2.0 s) →"
        " make //m:c (1.0 s)"
    )
    assert [row.text for row in timeline.all("text", class_="row")] == [
        *("critical path", "starts of workers", "worker 0", "worker 1")
    ]
    assert len(timeline.all("rect", class_="critical")) == 4  # twice: on the path, and on their workers
    assert ["make it", "ran", "1.0 s", "m/net.py changed (01 -> 02)"] in actions.rows()
    assert len(actions.all("a", class_="box")) == 6
    assert len(actions.all("path", class_="edge")) == 3
    assert tests.rows()[:2] == [
        ["one", "passed", "0.5 s", ""],
        ["two", "failed", "1.0 s", "3 of 4 values differ m/test_t.py:3"],
    ]
    assert "printed" in tests.text
    # The worst regression first.
    assert [row[:6] for row in devices.rows()] == [
        ["//d:orin", "//m:u (orin)", "95th percentile of the latency (ms)", "1,200", "800", "+50.0%"],
        ["//d:orin", "//m:u (orin)", "latency (ms)", "3", "800", "-99.6%"],
    ]
    assert sizes.rows()[0][:5] == ["//m:c (cpu)", "size (bytes)", "1,000", "800", "+25.0%"]
    assert targets.rows() == [
        ["//m:c", "cpu", "built", "modelbuild-out/cpu/m/c/c.bin"],
        ["//m:bad", "cpu", "not built", "bad failed"],
    ]
    details = page.one("aside", id="details")
    assert details.one("h2").text == "c"
    assert [link.text for link in details.all("a")] == ["a", "b"]
    assert "Why m/net.py changed (01 -> 02)" in details.text


def hostile(value: Any) -> Any:
    """Return an event with a hostile text in place of each text that it takes from users."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kept = {"status", "at", "id", "makers", "owner"}
        changed = {f.name: hostile(getattr(value, f.name)) for f in dataclasses.fields(value) if f.name not in kept}
        return dataclasses.replace(value, **changed)
    if isinstance(value, tuple):
        return tuple(map(hostile, value))
    if isinstance(value, dict):
        return {hostile(key): number for key, number in value.items()}
    return f"{HOSTILE}{value}" if isinstance(value, str) else value


def test_hostile_texts_are_shown_as_they_are(tmp_path: Path, browser_folder: Path) -> None:
    skipped = events.TargetSkipped("//m:s", "no good", "m/BUILD.toml:1:1")
    happened = [hostile(each) for each in [*EVENTS[:-1], skipped]] + EVENTS[-1:]
    port = {"kind": "tensor", "name": HOSTILE, "dtype": HOSTILE, "shape": [1], "device": HOSTILE}
    call = {"op": HOSTILE, "count": 1, "reasons": [{"backend": HOSTILE, "why": HOSTILE}]}
    part = {"index": 0, "id": HOSTILE, "backend": HOSTILE, "bytes": 5, "named_bytes": 0, "nodes": 1, "blob": None}
    part |= {"operators": {HOSTILE: 1}, "arguments": [port]}
    stages = [{"partition": None, "calls": [call], "after": []}, {"partition": 0, "calls": [], "after": [0]}]
    method = {"name": HOSTILE, "inputs": [port], "outputs": [port], "planned_bytes": 1, "partitions": [part]}
    program = {"path": HOSTILE, "label": HOSTILE, "config": HOSTILE, "bytes": 9, "data": [], "folded": [call]}
    program |= {"methods": [{**method, "stages": stages}], "left": [], "device": None, "versions": {HOSTILE: HOSTILE}}
    path = write_page(
        tmp_path / f"{'<b>'}.html", happened, lambda actions: dict.fromkeys(actions, (HOSTILE, [HOSTILE])), [program],
        f"{HOSTILE} \udcff",
    )  # fmt: skip
    page = opened(path, browser_folder, "action-5")
    assert page.one("head").one("title").text != "hacked"
    assert page.all("img") == []
    shown = " ".join(HOSTILE.split())
    for name in ("failures", "timeline", "actions", "programs", "tests", "targets"):
        assert shown in page.one("section", id=name).text, name
    assert page.one("h1").text == f"{shown} \\udcff"
    assert shown in page.one("aside").text


def test_a_page_runs_its_own_script_only(tmp_path: Path) -> None:
    text = write_page(tmp_path / "r.html", [hostile(each) for each in EVENTS]).read_text()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
    assert len(re.findall(r"<script", text, re.IGNORECASE)) == 2  # the data, and the script
    markup = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", text, flags=re.DOTALL)
    assert re.findall(r"(?:src|href)=\"(?!#)|url\(", markup) == []  # nothing is fetched
    assert data_of(tmp_path / "r.html")["version"] == VERSION


def test_a_page_is_drawn_before_its_script_ends(tmp_path: Path, browser_folder: Path) -> None:
    path = write_page(tmp_path / "r.html", EVENTS)
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", path.read_text())
    no_frames = "<script>window.ResizeObserver = class { observe() {} };</script>"
    path.write_text(text.replace("<body>", f"<body>{no_frames}"))
    page = opened(path, browser_folder)
    assert page.one("section", id="timeline").all("text", class_="row")
    assert page.one("section", id="actions").all("a", class_="box")


def test_a_script_that_fails_is_seen(tmp_path: Path, browser_folder: Path) -> None:
    """Otherwise the other tests here could not fail."""
    (tmp_path / "r.html").write_text(render({"title": "t", "build": {"time": 0}, "programs": []}))
    with pytest.raises(AssertionError, match="could not be shown completely"):
        opened(tmp_path / "r.html", browser_folder)


def test_a_build_of_2000_actions_is_folded(tmp_path: Path, browser_folder: Path) -> None:
    happened = [
        event
        for number in range(2000)
        for event in ran(
            f"//m:{number // 20}#{number}", number, 0.5, (f"//m:{number // 20}#{number - 1}",) if number % 20 else ()
        )
    ]
    path = write_page(tmp_path / "r.html", [*happened, events.BuildFinished(2000.0, at=2000.0)])
    assert path.stat().st_size < 1_000_000
    page = opened(path, browser_folder, "find=%2F%2Fm%3A7%23")
    actions = page.one("section", id="actions")
    assert len(actions.all("a", class_="box")) <= 60
    assert len(actions.rows()) == 20
    assert "20 actions shown" in actions.text
    assert len(page.one("section", id="timeline").all("a", class_="span")) >= 2000


# -- through the command line -----------------------------------------------------------------------------------------


def report(workspace: Workspace, *arguments: str, code: int = 0) -> Any:
    ended = workspace.run(*arguments, "--report", "r.html")
    assert ended.code == code, ended.err
    return data_of(workspace.root / "r.html")


def by_id(data: Any) -> dict[str, Any]:
    return {action["id"]: action for action in data["build"]["actions"]}


def test_reports_of_builds_have_reasons_failures_and_earlier_sizes(workspace: Workspace, browser_folder: Path) -> None:
    workspace.write({**FILES, "a/s.py": "result = 1\n"})
    first = report(workspace, "build", SCRIPT)
    assert (first["build"]["command"], first["build"]["exit"]) == (f"modelbuild build {SCRIPT} --report r.html", 0)
    assert by_id(first)[f"{SCRIPT}#script"]["reason"] == "first"
    idle = report(workspace, "build", SCRIPT)
    assert (idle["build"]["up_to_date"], idle["build"]["actions"], idle["build"]["counts"]["actions"]) == (True, [], 1)
    workspace.write({"a/s.py": "result = 22\n"})
    second = report(workspace, "build", SCRIPT)
    action = by_id(second)[f"{SCRIPT}#script"]
    assert (action["status"], action["reason"]) == ("ran", "changed")
    assert action["why"][0].startswith("a/s.py changed (")
    assert [(each["before"], each["now"]) for each in second["build"]["measures"]] == [(1, 2)]
    workspace.write({"a/s.py": "result = 1 / 0\n"})
    failed = report(workspace, "build", SCRIPT, code=1)
    assert (failed["build"]["exit"], failed["build"]["ok"]) == (1, False)
    assert "division by zero" in by_id(failed)[f"{SCRIPT}#script"]["problem"]
    assert "division by zero" in opened(workspace.root / "r.html", browser_folder).one("section", id="failures").text
    workspace.write({"a/s.py": "result = 1\n"})
    cached = by_id(report(workspace, "build", SCRIPT))[f"{SCRIPT}#script"]
    assert cached["status"] == "cached"
    assert cached["saved"] > 0


def test_a_build_that_stops_leaves_a_report(workspace: Workspace) -> None:
    workspace.write({**FILES, "a/BUILD.toml": "[[scrip]]\n"})
    data = report(workspace, "build", "//a:s", code=3)
    assert data["build"]["exit"] == 3
    assert "scrip" in data["build"]["problem"]


def test_a_report_that_cannot_be_written_is_refused_before_the_build(workspace: Workspace) -> None:
    workspace.write({**FILES, "a/s.py": "result = 1\n"})
    ended = workspace.run("build", SCRIPT, "--report", "none/r.html")
    assert (ended.code, ended.err) == (2, f"error: {workspace.root}/none/r.html: No such file or directory\n")
    with pytest.raises(UsageError, match=r"report\.json: expected a file that ends in \.html"):
        check_suffix(Path("ci/report.json"))
