"""A build's events as text. Pure functions from events to lines."""

from __future__ import annotations

import re

from modelbuild.wording import action_line, count, duration, size_text

TYPE_CHECKING = False
if TYPE_CHECKING:  # a build with nothing to do imports only modules that it needs
    from collections.abc import Iterator, Sequence
    from typing import Any, TextIO

    from modelbuild.events import ActionFinished, Planned, UploadsAwaited
    from modelbuild.report.progress import BuildProgress

# Maximum number of targets that are listed without --show-outputs=all.
SHOWN_TARGETS = 20

_COLOR = r"\x1b\[[0-9;:]*m"
_CONTROL = "[^\t\n -~\xa0-\u2027\u202a-\ud7ff\ue000-\U0010ffff]+"


def printable(text: str) -> str:
    r"""Return text that cannot control a terminal: colors are removed, `\r\n` is a line break, and other control
    characters except tabs and line breaks are escaped. Every text that is printed passes it, whoever wrote it."""
    if text.replace("\n", "").isprintable():  # as most texts are: a build with nothing to do compiles no expression
        return text
    plain = re.sub(_COLOR, "", text.replace("\r\n", "\n"))
    return re.sub(_CONTROL, lambda found: repr(found[0])[1:-1], plain)


class PrintableStream:
    """A text stream that writes printable text to another stream. Bytes and everything else go to that stream."""

    encoding = "utf-8"  # of a stream in ASCII, click would write to the bytes below it; that stream escapes the rest

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        return self.stream.write(printable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def plain_stream(stream: TextIO) -> TextIO:
    """Return the stream itself, for colors and a progress bar."""
    return stream.stream if isinstance(stream, PrintableStream) else stream


def encodable(text: str, stream: TextIO) -> str:
    """Return the text with characters escaped that the stream's encoding lacks."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def write(stream: TextIO, lines: str) -> None:
    """Write lines as printable text and flush, on a terminal with colors. Ignores a closed stream."""
    stream, lines = plain_stream(stream), printable(lines)
    try:
        if stream.isatty():
            from modelbuild.report.colors import highlight

            lines = highlight(lines)
        stream.write(encodable(lines, stream) + "\n")
        stream.flush()
    except (OSError, ValueError):  # the reader has closed the pipe, or the stream is closed
        pass


def uploads_line(event: UploadsAwaited) -> str:
    """Return `waiting for 3 uploads to the remote cache, 1.2 GiB left`."""
    uploads = count(event.results, "upload")
    return f"waiting for {uploads} to the remote cache, {size_text(event.bytes)} left (Ctrl-C to stop waiting)"


def finished_line(event: ActionFinished, done: int, total: int) -> str:
    """Return `[3/14] compile //models:detector p0 (xnnpack)  1.2 s`."""
    how = "FAILED" if event.status == "failed" else duration(event.seconds)
    return f"[{done}/{total}] {action_line(event)}  {how}"


def failure_lines(event: ActionFinished) -> Iterator[str]:
    """Yield the output of a failed action, and last the line with the reason."""
    for name, text in (("stdout", event.stdout), ("stderr", event.stderr)):
        if text.strip():
            yield f"--- {name} of {action_line(event)}"
            yield text.rstrip()
    *before, last = event.problem.rstrip().splitlines() or ["failed"]
    yield from before
    yield f"error: {action_line(event)}: {last}"


def target_lines(built: Sequence[tuple[str, str, tuple[str, ...]]], show: str = "summary") -> Iterator[str]:
    """Yield each built target (label, configuration, outputs), with its outputs below it; `show` is the value of
    --show-outputs."""
    if show == "none":
        return
    several = len({label for label, _, _ in built}) < len(built)
    most = len(built) if show == "all" else SHOWN_TARGETS
    for label, config, outputs in built[:most]:
        yield f"{label} ({config})" if several else label
        for output in outputs:
            yield f"  {output}"
    if len(built) > most:
        yield f"and {count(len(built) - most, 'target')} more"


def summary(progress: BuildProgress) -> str:
    """Return the last line of a finished build."""
    assert progress.finished is not None
    if progress.planned is not None:
        return _planned(progress.planned)
    if progress.finished.up_to_date:
        unchanged = len(progress.tests) or len(progress.built)
        return nothing_to_do(unchanged, progress.finished.actions, progress.finished.seconds)
    if progress.tests:
        return f"Done in {duration(progress.finished.seconds)}: {counts(progress)}"
    took = duration(progress.finished.seconds)
    targets = count(len(progress.built), "target")
    if progress.ok:
        return f"Built {targets} in {took}: {counts(progress)}"
    return f"Failed in {took}: {targets} built, {len(progress.unbuilt) + len(progress.skipped)} not: {counts(progress)}"


def _planned(event: Planned) -> str:
    """Return `Would build 3 targets: 14 actions, 5 cached, 9 to run`."""
    found = f"{count(event.actions, 'action')}, {event.cached} cached, {event.actions - event.cached} to run"
    more = ", and those that depend on their results" if event.grows else ""
    return f"Would build {count(len(event.targets), 'target')}: {found}{more}"


def nothing_to_do(targets: int, actions: int, seconds: float) -> str:
    """Return the last line of a build without changes."""
    return f"Nothing to do: {count(targets, 'target')} up to date ({count(actions, 'action')}) in {duration(seconds)}"


def counts(progress: BuildProgress) -> str:
    """Return `14 actions, 9 ran, 5 cached`."""
    parts = [count(progress.total, "action"), f"{progress.ran} ran", f"{progress.cached} cached"]
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    if progress.total > progress.done:
        parts.append(f"{progress.total - progress.done} not run")
    return ", ".join(parts)
