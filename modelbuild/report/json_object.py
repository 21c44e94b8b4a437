"""A build as one JSON object, for machines to read."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, TextIO

from modelbuild.events import ActionFinished, BuildFinished, Event, Notice, TestFinished
from modelbuild.report.progress import BuildProgress
from modelbuild.report.text import failure_lines, write

VERSION = 1


class JsonReporter:
    """Failures and notices as text on `err` during the build; at the end one line of JSON on `out`.

    docs/reference/cli.md lists its members.
    """

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = out
        self._err = err
        self._progress = BuildProgress()
        self._notices: list[str] = []

    def emit(self, event: Event) -> None:
        self._progress.add(event)
        match event:
            case ActionFinished(status="failed"):
                write(self._err, "\n".join(failure_lines(event)))
            case Notice(text=text):
                self._notices.append(text)
                write(self._err, f"note: {text}")
            case BuildFinished():
                for problem in self._progress.problems:
                    write(self._err, f"error: {problem}")

    def close(self) -> None:
        """Write the object. A build that was aborted is not ok."""
        write(self._out, json.dumps(self._object()))

    def _object(self) -> dict[str, Any]:
        progress, end = self._progress, self._progress.finished
        up_to_date = end is not None and end.up_to_date
        return {
            "version": VERSION,
            "ok": progress.ok,
            "error": None if progress.aborted is None else progress.aborted.problem,
            "interrupted": progress.aborted is not None and progress.aborted.interrupted,
            "up_to_date": up_to_date,
            "seconds": None if end is None else round(end.seconds, 3),
            "targets": [
                *(
                    {"label": t.label, "config": t.config, "built": True, "outputs": list(t.outputs)}
                    for t in progress.built
                ),
                *(
                    {"label": t.label, "config": t.config, "built": False, "because": t.because}
                    for t in progress.unbuilt
                ),
                *(
                    {"label": t.label, "config": None, "built": False, "because": t.problem}
                    for t in progress.skipped.values()
                ),
                *(
                    {"label": label, "config": config, "built": False, "because": "--no-build"}
                    for label, config in (progress.planned.targets if progress.planned is not None else ())
                ),
            ],
            "tests": [_test(test) for test in progress.tests],
            "counts": {
                "actions": end.actions if end is not None and up_to_date else progress.total,
                "ran": progress.ran,
                "cached": progress.cached if progress.planned is None else progress.planned.cached,
                "failed": progress.failed,
            },
            "actions": [_action(event) for event in progress.actions.values()],
            "failures": [
                {**_action(event), "problem": event.problem, "stdout": event.stdout, "stderr": event.stderr}
                for event in progress.actions.values()
                if event.status == "failed"
            ],
            "notices": self._notices,
        }


def _test(test: TestFinished) -> dict[str, Any]:
    facts = dataclasses.asdict(test)
    del facts["at"], facts["shown"]
    return {**facts, "seconds": round(test.seconds, 3)}


def _action(event: ActionFinished) -> dict[str, Any]:
    return {
        "id": event.id,
        "owner": event.owner,
        "mnemonic": event.mnemonic,
        "description": event.description,
        "status": event.status,
        "seconds": round(event.seconds, 3),
        "key": event.key,
    }
