"""Check files for CI against the formats that other programs read: JUnit, Chrome traces, build events."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

# JUnit's schema as Jenkins and most others read it: attributes that an element must have, those that it may have
# besides, and the order of its children.
_JUNIT: dict[str, tuple[set[str], set[str], list[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "disabled", "errors"}, ["testsuite"]),
    "testsuite": (
        {"name", "tests"},
        {"failures", "errors", "time", "disabled", "skipped", "timestamp", "hostname", "id", "package"},
        ["properties", "testcase", "system-out", "system-err"],
    ),
    "testcase": (
        {"name", "classname"},
        {"assertions", "time", "status"},
        ["skipped", "error", "failure", "system-out", "system-err"],
    ),
    "failure": (set(), {"type", "message"}, []),
    "error": (set(), {"type", "message"}, []),
    "skipped": (set(), {"type", "message"}, []),
    "system-out": (set(), set(), []),
}
_WHOLE = {"tests", "failures", "errors", "skipped", "disabled"}


def check_junit(path: Path) -> ElementTree.Element:
    """Check a file against the schema, and its counts against its cases. Returns its root."""
    root = ElementTree.parse(path).getroot()
    assert root.tag == "testsuites"
    for element in root.iter():
        required, allowed, order = _JUNIT[element.tag]
        assert required <= set(element.keys()) <= required | allowed, element.tag
        places = [order.index(child.tag) for child in element]
        assert places == sorted(places), f"children of {element.tag} in another order"
        assert all(re.fullmatch(r"\d+", value) for name, value in element.items() if name in _WHOLE)
        assert re.fullmatch(r"\d+(\.\d+)?", element.get("time", "0"))
    for suite in root:
        assert int(suite.get("tests", "")) == len(suite.findall("testcase"))
        assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure"))
        assert int(suite.get("skipped", "")) == len(suite.findall("testcase/skipped"))
    return root


def check_trace(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Check a file against the trace event format. Returns the events of each track by its name."""
    trace = json.loads(path.read_text())["traceEvents"]
    tracks: dict[int, str] = {}
    for each in trace:
        assert each["pid"] == 1
        assert isinstance(each["tid"], int)
        match each["ph"]:
            case "M":
                assert each["name"] == "thread_name"
                assert tracks.setdefault(each["tid"], each["args"]["name"]) == each["args"]["name"]
            case "X":
                assert each["ts"] >= 0
                assert each["dur"] >= 0
            case "i":
                assert each["ts"] >= 0
                assert each["s"] == "t"
            case other:
                raise AssertionError(f"an event of kind {other}")
    found = {name: [e for e in trace if e["ph"] != "M" and e["tid"] == track] for track, name in tracks.items()}
    assert sum(map(len, found.values())) == sum(each["ph"] != "M" for each in trace)
    for name, events in found.items():
        slices = sorted((each["ts"], -each["ts"] - each["dur"]) for each in events if each["ph"] == "X")
        # A slice of a track may be inside another, but viewers draw others that overlap wrong; clocks have millisecond
        # precision.
        around: list[int] = []
        for start, end in ((start, -end) for start, end in slices):
            around = [each for each in around if each > start + 1000]
            assert all(end <= each + 1000 for each in around), name
            around.append(end)
    return found


def documented_events(repository: Path) -> dict[str, set[str]]:
    """Return the members of each event, from docs/reference/ci.md."""
    table = (repository / "docs/reference/ci.md").read_text().partition("### Build events")[2].partition("## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", members))) for name, members in rows}


def check_events(path: Path, repository: Path) -> list[dict[str, Any]]:
    """Check a stream against its documented schema. Returns its lines."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    known = documented_events(repository)
    for line in lines:
        assert set(line) - {"event", "at"} == known[line["event"]], line["event"]
    assert [each["event"] for each in lines].count("stream_started") == 1
    assert (lines[0]["event"], lines[0]["at"], lines[0]["version"]) == ("stream_started", 0, 1)
    assert lines[-1]["event"] in ("build_finished", "build_aborted")
    for line in lines:
        if line["event"] == "action_finished":
            assert line["status"] in ("ran", "cached", "failed")
        elif line["event"] == "test_finished":
            assert line["status"] in ("passed", "failed", "not_run")
    return lines
