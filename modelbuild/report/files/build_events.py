"""A build as a stream of events, one JSON object per line, written as they happen: docs/reference/ci.md."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from modelbuild import __version__
from modelbuild.events import INSIDE, Event
from modelbuild.user_files import begin_file, explained

VERSION = 1


class BuildEvents:
    """Writes to a file, which is replaced. Every line has `event` and `at`: seconds since the first line. A line that
    cannot be written is the last one, and then close() raises as write_file does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._began = time.monotonic()
        self._problem: OSError | None = None
        now = time.time()
        first = {"event": "stream_started", "at": 0.0, "version": VERSION, "modelbuild": __version__, "time": now}
        self._file = begin_file(path, _line(first))

    def emit(self, event: Event) -> None:
        fields = [field for field in dataclasses.fields(event) if field.name != "at" and field.metadata != INSIDE]
        members = {field.name: getattr(event, field.name) for field in fields}
        self._write({"event": name_of(type(event)), "at": round(event.at - self._began, 6), **members})

    def close(self) -> None:
        with suppress(OSError):
            self._file.close()
        if self._problem is not None:
            with explained(self._path):
                raise self._problem

    def _write(self, line: dict[str, Any]) -> None:
        if self._problem is None and not self._file.closed:
            try:
                self._file.write(_line(line))
                self._file.flush()
            except OSError as error:  # a full disk must not end the build
                self._problem = error


def name_of(kind: type[Event]) -> str:
    """Return `action_finished` for ActionFinished."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", kind.__name__).lower()


def _line(members: dict[str, Any]) -> bytes:
    return json.dumps(members, default=_plain).encode() + b"\n"


def _plain(value: Any) -> Any:
    return dataclasses.asdict(value)
