"""A build as a stream of events, one JSON object per line, written as they happen: docs/reference/ci.md."""

from __future__ import annotations

import dataclasses
import json
import re
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from modelbuild import __version__
from modelbuild.events import INSIDE, Event

VERSION = 1


class BuildEvents:
    """Writes to a file, which is overwritten. Every line has `event` and `at`: seconds since the first line."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._write(
            {"event": "stream_started", "at": 0.0, "version": VERSION, "modelbuild": __version__, "time": time.time()}
        )

    def emit(self, event: Event) -> None:
        fields = [field for field in dataclasses.fields(event) if field.name != "at" and field.metadata != INSIDE]
        members = {field.name: getattr(event, field.name) for field in fields}
        with self._lock:
            self._write({"event": name_of(type(event)), "at": round(event.at - self._began, 6), **members})

    def close(self) -> None:
        with self._lock, suppress(OSError):
            self._file.close()

    def _write(self, line: dict[str, Any]) -> None:
        with suppress(OSError, ValueError):  # a full disk or a closed file must not fail the build
            self._file.write(json.dumps(line, default=_plain) + "\n")
            self._file.flush()


def name_of(kind: type[Event]) -> str:
    """Return `action_finished` for ActionFinished."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", kind.__name__).lower()


def _plain(value: Any) -> Any:
    return dataclasses.asdict(value)
