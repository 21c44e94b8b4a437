"""A build as plain lines, one per action that ran: for pipes, logs and terminals without cursor movement."""

from __future__ import annotations

import time
from typing import TextIO

from modelbuild.events import (
    ActionFinished,
    ActionProgress,
    ActionStarted,
    BuildAborted,
    BuildFinished,
    BuildStarted,
    Event,
    Notice,
    UploadsAwaited,
)
from modelbuild.report.progress import BuildProgress
from modelbuild.report.text import counts, failure_lines, finished_line, summary, target_lines, uploads_line, write
from modelbuild.testing.text import test_lines, test_summary
from modelbuild.wording import action_line

# Seconds between lines during a long wait: some CI systems kill jobs without output for some minutes.
_REPEAT = 60.0


class PlainReporter:
    """Progress and failures on `err`, built outputs on `out`. Quiet: only failures and notices."""

    def __init__(self, out: TextIO, err: TextIO, quiet: bool = False, show: str = "summary") -> None:
        """`show` is the value of --show-outputs."""
        self._out = out
        self._err = err
        self._show = show
        self._quiet = quiet
        self._progress = BuildProgress()
        self._awaited = float("-inf")  # time of the last line about waiting
        self._running: dict[str, ActionStarted] = {}
        self._printed = time.monotonic()  # when the last line about an action was printed

    def emit(self, event: Event) -> None:
        self._progress.add(event)
        match event:
            case ActionFinished():
                self._action(event)
            case ActionStarted():
                self._running[event.id] = event
            case ActionProgress():
                self._part(event)
            case BuildStarted():
                self._awaited = float("-inf")
                self._printed = event.at
            case UploadsAwaited() if not self._quiet and event.at - self._awaited >= _REPEAT:
                self._awaited = event.at
                write(self._err, uploads_line(event))
            case Notice(text=text):
                write(self._err, f"note: {text}")
            case BuildFinished():
                show_end(self._progress, self._out, self._err, self._quiet, self._show)
            case BuildAborted(interrupted=True) if not self._quiet:
                write(self._err, f"Interrupted: {counts(self._progress)}")

    def close(self) -> None:
        """Do nothing."""

    def _action(self, event: ActionFinished) -> None:
        self._running.pop(event.id, None)
        if event.status == "cached":  # only counted, in the numbers of the next line
            return
        self._printed = event.at
        if not self._quiet:
            write(self._err, finished_line(event, self._progress.done, self._progress.total))
        if event.status == "failed":
            write(self._err, "\n".join(failure_lines(event)))

    def _part(self, event: ActionProgress) -> None:
        """Print the progress of an action if nothing was printed for a minute."""
        action = self._running.get(event.id)
        if action is not None and event.part and not self._quiet and event.at - self._printed >= _REPEAT:
            self._printed = event.at
            write(self._err, f"{action_line(action)}  {event.part}")


def show_end(progress: BuildProgress, out: TextIO, err: TextIO, quiet: bool, show: str = "summary") -> None:
    """Print targets that failed, tests, built targets and the summary line."""
    for problem in progress.problems:
        write(err, f"error: {problem}")
    for skipped in progress.skipped.values():
        write(err, f"{skipped.label} was not built: the error at {skipped.location}")
    for target in progress.unbuilt:
        write(err, f"{target.label} was not built: {target.because} failed")
    for test in progress.tests:
        if test.status == "failed" or not quiet:
            write(err if test.status == "failed" else out, "\n".join(test_lines(test)))
    if not quiet:
        planned = progress.planned.targets if progress.planned is not None else ()
        listed = [(t.label, t.config, t.outputs) for t in progress.built[progress.shown :]]
        for line in target_lines([*listed, *((label, config, ()) for label, config in planned)], show):
            write(out, line)
        progress.shown = len(progress.built)
        if progress.tests:
            write(out if progress.ok else err, test_summary(progress.tests))
        write(out if progress.ok else err, summary(progress))
