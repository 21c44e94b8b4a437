"""Failures as GitHub's workflow commands, which annotate the failing line."""

from __future__ import annotations

import re
from typing import TextIO

from modelbuild.events import ActionFinished, BuildAborted, Event, Notice, TargetSkipped, TestFinished
from modelbuild.lines import one_line
from modelbuild.report.text import write

# `models/net.py:12` or `models/BUILD.toml:3:1` at the beginning of a line or after a space.
_PLACE = re.compile(r"(?:^|[\s(\"'])((?:[\w.+@-]+/)*[\w.+@-]+\.\w+):(\d+)(?::(\d+))?")


class GitHubAnnotations:
    """Writes one command for each failure. `folder` is the workspace in the repository, '' or ending in '/'."""

    def __init__(self, out: TextIO, folder: str = "") -> None:
        self._out = out
        self._folder = folder
        self._skipped: set[str] = set()

    def emit(self, event: Event) -> None:
        match event:
            case ActionFinished(status="failed"):
                last = event.problem.strip().rpartition("\n")[2]
                self._write("error", event.problem, f"{event.mnemonic} {event.owner}", last)
            case TestFinished(status="failed"):
                failed = [case for case in event.cases if case.status == "failed"]
                for case in failed:
                    place = case.place or event.location
                    self._write("error", place, f"{event.label}: {case.name}", case.message)
                if not failed:
                    self._write("error", event.location, event.label, event.reason)
            case TestFinished(status="not_run"):
                self._write("notice", event.location, f"{event.label} was not run", event.reason)
            case TargetSkipped() if event.problem not in self._skipped:
                self._skipped.add(event.problem)
                self._write("error", event.location, f"{event.label} was not built", event.problem)
            case BuildAborted(interrupted=False):
                self._write("error", event.problem, "modelbuild", event.problem)
            case Notice():
                self._write("notice", "", "modelbuild", event.text)

    def close(self) -> None:
        """Do nothing."""

    def _write(self, level: str, place: str, title: str, message: str) -> None:
        members = {}
        match = _PLACE.search(place)
        if match is not None:
            members = {"file": self._folder + match[1], "line": match[2]} | ({"col": match[3]} if match[3] else {})
        members["title"] = title
        properties = ",".join(f"{name}={_member(value)}" for name, value in members.items())
        write(self._out, f"::{level} {properties}::{_escaped(message)}")


def _escaped(text: str) -> str:
    return one_line(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _member(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
