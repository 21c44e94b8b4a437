"""Builds shown as plain lines and as JSON."""

from __future__ import annotations

import functools
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest

from modelbuild.events import (
    ActionFinished,
    ActionProgress,
    ActionStarted,
    BuildAborted,
    BuildFinished,
    BuildStarted,
    Event,
    GraphGrew,
    Notice,
    Reporter,
    TargetBuilt,
    TargetFailed,
    UploadsAwaited,
)
from modelbuild.report import make_reporter
from modelbuild.report.json_object import JsonReporter
from modelbuild.report.plain import PlainReporter
from modelbuild.report.reporter_scope import reporting
from modelbuild.report.text import SHOWN_TARGETS
from modelbuild.wording import duration

LABEL = "//models:detector"
PTE = "modelbuild-out/default/models/detector/detector.pte"


def ran(mnemonic: str, description: str, seconds: float) -> ActionFinished:
    return ActionFinished(f"{LABEL} {description}", LABEL, mnemonic, description, "ran", seconds, key="k")


GOOD: tuple[Event, ...] = (
    BuildStarted((LABEL,), total=3, jobs=2),
    ActionFinished("photo", "//third_party:photo", "fetch", "fetch astronaut.png", "cached"),
    ActionStarted("e", LABEL, "export", "export"),
    ran("export", "export", 2.04),
    GraphGrew(4),
    ran("compile", "p0 (xnnpack)", 75.0),
    ran("emit", "emit", 0.031),
    TargetBuilt(LABEL, "default", (PTE,)),
    BuildFinished(77.2),
)

FAILED = ActionFinished(
    "x",
    LABEL,
    "export",
    "export",
    "failed",
    0.3,
    problem="Traceback:\n  models/net.py:3\nValueError: no such layer",
    stdout="made 3 layers\n",
    stderr="careful\n",
)
BAD: tuple[Event, ...] = (
    BuildStarted((LABEL, "//models:other"), total=5, jobs=2),
    ran("export", "export", 1.0),
    Notice("a blob was damaged"),
    FAILED,
    TargetBuilt("//models:other", "default", ("modelbuild-out/o",)),
    TargetFailed(LABEL, "default", f"export {LABEL}"),
    BuildFinished(2.0),
)


def shown(make: Callable[[io.StringIO, io.StringIO], Reporter], events: Iterable[Event]) -> tuple[list[str], list[str]]:
    out, err = io.StringIO(), io.StringIO()
    reporter = make(out, err)
    for event in events:
        reporter.emit(event)
    reporter.close()
    return out.getvalue().splitlines(), err.getvalue().splitlines()


def test_plain_lines() -> None:
    out, err = shown(PlainReporter, GOOD)
    assert err == [
        "[2/3] export //models:detector  2.0 s",
        "[3/4] compile //models:detector p0 (xnnpack)  1 min 15 s",
        "[4/4] emit //models:detector  0.03 s",
    ]
    assert out == [
        "//models:detector",
        f"  {PTE}",
        "Built 1 target in 1 min 17 s: 4 actions, 3 ran, 1 cached",
    ]


def test_a_running_action_has_a_line_after_a_minute_without_one() -> None:
    """Some CI systems end jobs that print nothing for minutes."""
    seconds = (10.0, 61.0, 62.0, 130.0, 140.0)
    parts = [ActionProgress("e", f"part {number} of 6", at=at) for number, at in enumerate(seconds, 1)]
    ended = ActionFinished("o", LABEL, "emit", "emit", "ran", 1.0, at=135.0)
    late = ActionProgress("e", "part 6 of 6", at=196.0)
    started = [BuildStarted((LABEL,), 2, at=0.0), ActionStarted("e", LABEL, "export", "export", at=1.0)]
    events = [*started, *parts[:4], ended, parts[4], late, ActionProgress("unknown", "x", at=999.0)]
    _, err = shown(PlainReporter, events)
    assert err == [
        "export //models:detector  part 2 of 6",
        "export //models:detector  part 4 of 6",
        "[1/2] emit //models:detector  1.0 s",
        "export //models:detector  part 6 of 6",
    ]
    assert shown(functools.partial(PlainReporter, quiet=True), events) == ([], [])


def test_failure_ends_with_the_line_that_says_why() -> None:
    out, err = shown(PlainReporter, BAD)
    assert err == [
        "[1/5] export //models:detector  1.0 s",
        "note: a blob was damaged",
        "[2/5] export //models:detector  FAILED",
        "--- stdout of export //models:detector",
        "made 3 layers",
        "--- stderr of export //models:detector",
        "careful",
        "Traceback:",
        "  models/net.py:3",
        "error: export //models:detector: ValueError: no such layer",
        "//models:detector was not built: export //models:detector failed",
        "Failed in 2.0 s: 1 target built, 1 not: 5 actions, 1 ran, 0 cached, 1 failed, 3 not run",
    ]
    assert out == ["//models:other", "  modelbuild-out/o"]


def test_quiet_shows_only_what_fails() -> None:
    quiet = functools.partial(PlainReporter, quiet=True)
    assert shown(quiet, GOOD) == ([], [])
    out, err = shown(quiet, BAD)
    assert out == []
    assert err[-1] == "//models:detector was not built: export //models:detector failed"
    assert not any(line.startswith("[") for line in err)


def test_null_build_says_that_there_is_nothing_to_do() -> None:
    events = (TargetBuilt(LABEL, "default", (PTE,)), BuildFinished(0.051, up_to_date=True, actions=14))
    out, err = shown(PlainReporter, events)
    assert out[-1] == "Nothing to do: 1 target up to date (14 actions) in 0.05 s"
    assert err == []


def test_a_wait_for_uploads_is_said_once_a_minute() -> None:
    waits = [UploadsAwaited(3, 5 << 20, at=100.0 + second) for second in range(70)]
    events = (*GOOD[:-1], *waits, UploadsAwaited(1, 10, at=170.0), GOOD[-1])
    _, err = shown(PlainReporter, events)
    assert err[-2:] == ["waiting for 3 uploads to the remote cache, 5.0 MiB left (Ctrl-C to stop waiting)"] * 2
    assert len(err) == 5
    assert shown(functools.partial(PlainReporter, quiet=True), events) == ([], [])


def test_interrupted_build() -> None:
    events = (*GOOD[:4], BuildAborted("interrupted", interrupted=True))
    _, err = shown(PlainReporter, events)
    assert err[-1] == "Interrupted: 3 actions, 1 ran, 1 cached, 1 not run"
    built = json.loads(shown(JsonReporter, events)[0][0])
    assert (built["ok"], built["interrupted"], built["error"]) == (False, True, "interrupted")


def test_aborted_build_leaves_the_message_to_the_caller() -> None:
    events = (BuildAborted("a/BUILD.toml:1:1: no rule 'x'"),)
    assert shown(PlainReporter, events) == ([], [])
    built = json.loads(shown(JsonReporter, events)[0][0])
    assert (built["ok"], built["interrupted"], built["error"]) == (False, False, "a/BUILD.toml:1:1: no rule 'x'")


def test_configurations_are_told_apart_and_many_targets_are_cut_short() -> None:
    twice = [TargetBuilt(LABEL, c, (f"modelbuild-out/{c}/x",)) for c in ("a", "b")]
    out, _ = shown(PlainReporter, (*twice, BuildFinished(1.0)))
    assert [out[0], out[2]] == ["//models:detector (a)", "//models:detector (b)"]
    many = [TargetBuilt(f"//m:t{i}", "default", ()) for i in range(SHOWN_TARGETS + 2)]
    out, _ = shown(PlainReporter, (*many, BuildFinished(1.0)))
    assert out[SHOWN_TARGETS:-1] == ["and 2 targets more"]


def test_json_object_of_a_good_build() -> None:
    out, err = shown(JsonReporter, GOOD)
    assert err == []
    (line,) = out
    built = json.loads(line)
    assert built["ok"] is True
    assert built["targets"] == [{"label": LABEL, "config": "default", "built": True, "outputs": [PTE]}]
    assert built["counts"] == {"actions": 4, "ran": 3, "cached": 1, "failed": 0}
    assert [a["status"] for a in built["actions"]] == ["cached", "ran", "ran", "ran"]
    assert built["actions"][1]["key"] == "k"
    assert built["failures"] == []


def test_json_object_of_a_failed_build() -> None:
    out, err = shown(JsonReporter, BAD)
    built = json.loads("".join(out))
    assert built["ok"] is False
    assert built["failures"][0]["problem"].endswith("ValueError: no such layer")
    assert built["failures"][0]["stdout"] == "made 3 layers\n"
    assert built["targets"][1] == {
        "label": LABEL,
        "config": "default",
        "built": False,
        "because": f"export {LABEL}",
    }
    assert built["notices"] == ["a blob was damaged"]
    assert "error: export //models:detector: ValueError: no such layer" in err


def test_json_object_of_a_null_build_and_of_one_that_never_ended() -> None:
    events = (TargetBuilt(LABEL, "default", (PTE,)), BuildFinished(0.051, up_to_date=True, actions=14))
    built = json.loads(shown(JsonReporter, events)[0][0])
    assert (built["ok"], built["up_to_date"], built["counts"]["actions"]) == (True, True, 14)
    built = json.loads(shown(JsonReporter, GOOD[:3])[0][0])
    assert (built["ok"], built["seconds"]) == (False, None)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.00 s"),
        (0.0994, "0.10 s"),
        (0.0996, "0.1 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (3599.6, "1 h 00 min"),
        (7380, "2 h 03 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_counts_stay_right_with_many_threads() -> None:
    out, err = io.StringIO(), io.StringIO()
    with reporting(PlainReporter(out, err)) as reporter, ThreadPoolExecutor(8) as pool:
        ended = (ActionFinished(str(number), LABEL, "compile", f"p{number}", "ran", 0.1) for number in range(1600))
        list(pool.map(reporter.emit, ended))
    lines = err.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == [f"[{i}/{i}]" for i in range(1, 1601)]


def test_a_closed_reader_does_not_fail_the_build() -> None:
    out, err = io.StringIO(), io.StringIO()
    reporter = PlainReporter(out, err)
    out.close()
    err.close()
    for event in BAD:
        reporter.emit(event)


def test_text_that_the_stream_cannot_encode_is_escaped() -> None:
    raw = io.BytesIO()
    err = io.TextIOWrapper(raw, encoding="ascii")
    PlainReporter(err, err).emit(Notice("größe \u201cx\u201d"))
    assert raw.getvalue() == b"note: gr\\xf6\\xdfe \\u201cx\\u201d\n"


def test_null_build_does_not_import_rich() -> None:
    code = """
import sys
from modelbuild.report import make_reporter
from modelbuild.events import BuildFinished, TargetBuilt
sys.stderr.isatty = lambda: True
reporter = make_reporter()
reporter.emit(TargetBuilt("//a", "default", ("modelbuild-out/a",)))
reporter.emit(BuildFinished(0.05, up_to_date=True, actions=3))
reporter.close()
assert type(reporter).__name__ == "ConsoleReporter", type(reporter)
print(sorted({name.partition(".")[0] for name in sys.modules} & {"rich", "click", "pydantic", "networkx", "asyncio"}))
"""
    env = {"TERM": "xterm", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-2:] == ["Nothing to do: 1 target up to date (3 actions) in 0.05 s", "[]"]


def test_make_reporter_is_plain_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(make_reporter(), PlainReporter)
    assert isinstance(make_reporter(as_json=True), JsonReporter)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(make_reporter(), PlainReporter)
