"""The progress of running actions: parts of their work, as steps report them."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modelbuild.events import ActionProgress, Event, WorkerReady
from modelbuild.step import Step

# Ends when its first part was shown.
WAITS = """
    import os, tempfile, time
    def run(step):
        %s
        while not os.path.exists(os.path.join(tempfile.gettempdir(), "go")):
            time.sleep(0.01)
        step.outputs["out"].write_text("1")
"""


class Shown:
    """A reporter that keeps parts in order, and makes a file `go` for each action that shows the part `awaited`."""

    def __init__(self, scratch: Path, awaited: str = "") -> None:
        self.parts: list[str] = []
        self._scratch = scratch
        self._awaited = awaited

    def emit(self, event: Event) -> None:
        if isinstance(event, WorkerReady):
            return
        assert isinstance(event, ActionProgress)
        assert event.id == "id"
        self.parts.append(event.part)
        if not self._awaited or event.part == self._awaited:
            for home in self._scratch.glob("build-*/*/.home"):
                (home / "go").touch()

    def close(self) -> None:
        """Do nothing."""


def shown(bench: Any, reports: str, awaited: str = "") -> list[str]:
    """Return the parts that are shown of a step that reports some and waits until one is shown."""
    reporter = Shown(bench.scratch, awaited)
    bench.executor = bench.new_executor(reporter=reporter)
    bench.step("tiny", WAITS % reports)
    assert bench.value("tiny") == 1
    return reporter.parts


def test_a_part_of_the_work_is_shown_while_the_action_runs(bench: Any) -> None:
    assert shown(bench, 'step.progress("kernel", 4, 17)') == ["kernel 4 of 17"]


def test_the_start_of_a_worker_is_shown_until_it_is_ready(bench: Any) -> None:
    seen: list[str | tuple[str, ...]] = []

    class Reporter:
        def emit(self, event: Any) -> None:
            seen.append(event.modules if isinstance(event, WorkerReady) else event.part)

        def close(self) -> None:
            """Do nothing."""

    bench.executor = bench.new_executor(reporter=Reporter())
    bench.step("tiny", 'def run(step):\n    step.outputs["out"].write_text("1")')
    for _ in range(2):
        assert bench.value("tiny", preload=("torch",)) == 1
    assert seen == ["starting a worker with torch", ("torch",), ""]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ('"linking"', "linking"),
        ('"partition", 3', "partition 3"),
        ('"kernel", 4, 17', "kernel 4 of 17"),
        ('"a" * 99, 4, 17', "a" * 40 + " 4 of 17"),
        ('"\\x1b[31mred\\x07\\n\\tblue\\u2028\\u202e"', "[31mred blue"),
        ('"\\ud800\\0x"', "?"),
        ('"\u00e9t\u00e9"', "\u00e9t\u00e9"),
    ],
)
def test_a_part_is_one_short_line_without_control_characters(bench: Any, call: str, text: str) -> None:
    assert shown(bench, f"step.progress({call})") == [text]


def test_the_newest_part_is_shown_however_many_there_are(bench: Any) -> None:
    """Many parts cost the engine a few events a second."""
    began = time.monotonic()
    reports = 'for number in range(200_001): step.progress("part", number)'
    parts = shown(bench, reports, awaited="part 200000")
    assert parts[-1] == "part 200000"
    assert len(parts) <= 2 + 4 * (time.monotonic() - began)


def test_parts_of_two_actions_are_told_apart(bench: Any) -> None:
    found: dict[str, list[str]] = {"one": [], "two": []}

    class Reporter:
        def emit(self, event: Any) -> None:
            if isinstance(event, ActionProgress):
                found[event.id].append(event.part)
            if all(found.values()):
                for home in bench.scratch.glob("build-*/*/.home"):
                    (home / "go").touch()

        def close(self) -> None:
            """Do nothing."""

    bench.executor = bench.new_executor(reporter=Reporter())
    bench.step("tiny", WAITS % 'step.progress(step.params["name"])')
    requests = [bench.request("tiny", params={"name": name}) for name in found]
    requests = [replace(r, action=replace(r.action, id=n)) for r, n in zip(requests, found, strict=True)]
    threads = [threading.Thread(target=bench.executor.run, args=(request,)) for request in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {"one": ["one"], "two": ["two"]}


# Each finds the file that its parent reads, and breaks it.
BREAKS = """
    import os, time
    def run(step):
        for name in os.listdir("/proc/self/fd"):
            path = f"/proc/self/fd/{name}"
            if os.path.lexists(path) and "progress" in os.readlink(path):
                %s
        step.progress("kernel", 4, 17)
        time.sleep(0.6)  # longer than until the next look
        step.outputs["out"].write_text("1")
"""


@pytest.mark.parametrize("broken", ["os.close(int(name))", "os.pwrite(int(name), bytes(range(128, 256)) * 99, 0)"])
def test_progress_fails_no_action(bench: Any, broken: str) -> None:
    bench.executor = bench.new_executor(reporter=Shown(bench.scratch))
    bench.step("tiny", BREAKS % broken)
    assert bench.value("tiny") == 1


def test_progress_is_in_no_result(bench: Any) -> None:
    reporter = Shown(bench.scratch)
    bench.executor = bench.new_executor(reporter=reporter)
    bench.step("tiny", WAITS % "step.progress(str(os.getpid()))")
    one, other = bench.ok("tiny"), bench.ok("tiny")
    assert len(set(reporter.parts)) == 2
    assert (one.outputs, one.stdout, one.stderr) == (other.outputs, None, None)


def test_a_step_that_no_build_runs_may_report(tmp_path: Path) -> None:
    Step({}, {}, {}, tmp_path).progress("kernel", 4, 17)
