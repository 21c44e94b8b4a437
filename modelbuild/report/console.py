"""A build on a terminal: a progress bar and the running actions with their times, removed at the end."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, TextIO

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
from modelbuild.report.plain import show_end
from modelbuild.report.progress import BuildProgress
from modelbuild.report.text import counts, encodable, failure_lines, plain_stream, printable, uploads_line, write
from modelbuild.wording import action_line, duration

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live

# A build that runs no action and ends within this many seconds shows no bar and never imports rich.
PATIENCE = 0.5
SHOWN_ACTIONS = 10
REFRESHES = 8  # per second
BAR = 30  # columns


class ConsoleReporter:
    """Live progress on `err`, a terminal, with failures above it. Built outputs go to `out`."""

    def __init__(self, out: TextIO, err: TextIO, show: str = "summary") -> None:
        """`show` is the value of --show-outputs."""
        self._out = out
        self._err = plain_stream(err)
        self._listed = show
        # rich draws in a separate thread, under its own lock, and reads fields guarded by _state. So the lock order is
        # _screen (for writing), rich's, _state; rich is never called with _state held.
        self._screen = threading.Lock()
        self._state = threading.Lock()
        self._progress = BuildProgress()
        self._running: dict[str, ActionStarted] = {}
        self._parts: dict[str, str] = {}
        self._awaited: UploadsAwaited | None = None
        self._began = time.monotonic()
        self._live: Live | None = None
        self._closed = False

    def emit(self, event: Event) -> None:
        with self._state:
            self._progress.add(event)
            match event:
                case BuildStarted():
                    self._began = event.at
                    self._running.clear()  # from before a restart of the build
                    self._awaited = None
                case ActionStarted():
                    self._running[event.id] = event
                    self._parts.pop(event.id, None)  # the part of an earlier run
                case ActionProgress():
                    self._parts[event.id] = event.part
                case ActionFinished():
                    self._running.pop(event.id, None)
                    self._parts.pop(event.id, None)
                case UploadsAwaited():
                    self._awaited = event
        match event:
            case ActionStarted() | UploadsAwaited():
                self._show()
            case ActionFinished(status="failed"):
                self._print("\n".join(failure_lines(event)))
            case ActionFinished() if event.at - self._began > PATIENCE:
                self._show()
            case Notice(text=text):
                self._print(f"note: {text}")
            case BuildFinished():
                self.close()
                show_end(self._progress, self._out, self._err, quiet=False, show=self._listed)
            case BuildAborted(interrupted=interrupted):
                self.close()
                if interrupted:
                    write(self._err, f"Interrupted: {counts(self._progress)}")

    def close(self) -> None:
        with self._screen:
            self._closed = True
            if self._live is not None:
                self._live.stop()

    def _show(self) -> None:
        """Start drawing, unless it has started or ended."""
        if self._live is not None:
            return
        from rich.console import Console
        from rich.live import Live

        with self._screen:
            if self._live is None and not self._closed:
                console = Console(file=self._err, highlight=False, markup=False, emoji=False)
                self._live = Live(
                    console=console,
                    get_renderable=lambda: self._picture(console),
                    refresh_per_second=REFRESHES,
                    transient=True,
                    redirect_stdout=False,
                    redirect_stderr=False,
                    vertical_overflow="crop",
                )
                self._live.start(refresh=True)

    def _print(self, lines: str) -> None:
        """Print permanent lines, above the bar if it is shown."""
        with self._screen:
            if self._live is None or self._closed:
                write(self._err, lines)
            else:
                from rich.text import Text

                from modelbuild.report.colors import highlight

                shown = Text.from_ansi(encodable(highlight(printable(lines)), self._err))
                self._live.console.print(shown, soft_wrap=True)

    def _picture(self, console: Console) -> Group:
        """Return the bar, and below it the actions that have run longest."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        with self._state:
            progress = self._progress
            done, total = progress.done, progress.total
            ended = f"{progress.ran} ran, {progress.cached} cached"
            failed = progress.failed
            running = sorted(self._running.values(), key=lambda action: action.at)
            parts = dict(self._parts)
            awaited = self._awaited
        now = time.monotonic()
        head = Table.grid(padding=(0, 2, 0, 0))
        head.add_column(width=max(4, min(BAR, console.width - 40)))
        head.add_column(no_wrap=True, overflow="crop")
        status = Text(f"{done}/{total}  {ended}", end="")
        if failed:
            status.append(f", {failed} failed", style="bold red")
        status.append(f"  {duration(now - self._began)}", style="dim")
        head.add_row(ProgressBar(total=max(total, 1), completed=done), status)

        shown = running[: max(1, min(SHOWN_ACTIONS, console.height - 3))]
        times = [duration(now - action.at) for action in shown]
        rows = Table.grid(padding=(0, 2, 0, 0))
        rows.add_column(
            no_wrap=True,
            overflow="ellipsis" if console.encoding.startswith("utf") else "crop",
            max_width=max(8, console.width - max(map(len, times), default=0) - 3),
        )
        rows.add_column(no_wrap=True, justify="right", style="dim")
        for action, took in zip(shown, times, strict=True):
            line = Text(f"  {encodable(printable(action_line(action)), self._err)}")
            if part := parts.get(action.id):
                line.append(f"  {encodable(printable(part), self._err)}", style="dim")
            rows.add_row(line, took)
        if len(running) > len(shown):
            rows.add_row(Text(f"  and {len(running) - len(shown)} more"), "")
        if awaited is not None:
            rows.add_row(Text(f"  {uploads_line(awaited)}"), "")
        return Group(head, rows)
