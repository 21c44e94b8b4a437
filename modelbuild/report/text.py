"""How a build is put into words. Pure functions from events to lines."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # a build that has nothing to do imports nothing to say so
    from collections.abc import Iterator, Sequence
    from typing import TextIO

    from modelbuild.actions import Action
    from modelbuild.events import ActionFinished, ActionStarted, TestFinished, UploadsAwaited
    from modelbuild.report.progress import Progress

# With more targets than this, only as many are listed.
SHOWN_TARGETS = 20


def encodable(text: str, stream: TextIO) -> str:
    """The text with what the stream's encoding lacks escaped."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def write(stream: TextIO, lines: str) -> None:
    """Write a line or lines and flush. That nobody reads them is no error."""
    try:
        stream.write(encodable(lines, stream) + "\n")
        stream.flush()
    except (OSError, ValueError):  # the reader has gone, or the stream is closed
        pass


def duration(seconds: float) -> str:
    """`0.04 s`, `1.2 s`, `2 min 03 s`, `1 h 02 min`."""
    if seconds < 0.0995:
        return f"{seconds:.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def count(number: int, noun: str) -> str:
    """`1 target`, `2 targets`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def size_text(count: int) -> str:
    """`12 bytes`, `3.4 KiB`, `1.0 GiB`."""
    if count < 1024:
        return f"{count} bytes"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if value < 1023.95 or unit == "TiB":
            break
    return f"{value:.1f} {unit}"


def number(value: float) -> str:
    """`1,234,567`, `0.1235`: something that was measured."""
    if value - value != 0:  # not finite
        return str(value)
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.4g}"


def uploads_line(event: UploadsAwaited) -> str:
    """`waiting for 3 uploads to the remote cache, 1.2 GiB left`."""
    uploads = count(event.results, "upload")
    return f"waiting for {uploads} to the remote cache, {size_text(event.bytes)} left (Ctrl-C ends the wait)"


def action_line(event: ActionStarted | ActionFinished | Action) -> str:
    """`compile //models:detector p0 (xnnpack)`."""
    detail = event.description.removeprefix(event.mnemonic).strip()
    return " ".join(part for part in (event.mnemonic, event.owner, detail) if part)


def finished_line(event: ActionFinished, done: int, total: int) -> str:
    """`[3/14] compile //models:detector p0 (xnnpack)  1.2 s`."""
    how = {"ran": duration(event.seconds), "cached": "cached", "failed": "FAILED"}[event.status]
    return f"[{done}/{total}] {action_line(event)}  {how}"


def failure_lines(event: ActionFinished) -> Iterator[str]:
    """What a failed action printed, and last the line that says why it failed."""
    for name, text in (("stdout", event.stdout), ("stderr", event.stderr)):
        if text.strip():
            yield f"--- {name} of {action_line(event)}"
            yield text.rstrip()
    *before, last = event.problem.rstrip().splitlines() or ["failed"]
    yield from before
    yield f"error: {action_line(event)}: {last}"


def target_lines(built: Sequence[tuple[str, str, tuple[str, ...]]]) -> Iterator[str]:
    """Each target that was built (label, configuration, outputs), its outputs below it."""
    several = len({label for label, _, _ in built}) < len(built)
    for label, config, outputs in built[:SHOWN_TARGETS]:
        yield f"{label} ({config})" if several else label
        for output in outputs:
            yield f"  {output}"
    if len(built) > SHOWN_TARGETS:
        yield f"and {count(len(built) - SHOWN_TARGETS, 'target')} more"


def test_lines(test: TestFinished) -> Iterator[str]:
    """A test that ended, and below it the cases that did not pass; before it what it printed, if it failed."""
    if test.status == "failed" and test.output.strip():
        yield f"--- output of {test.label}"
        yield test.output.rstrip()
    how = {"passed": "PASSED", "failed": "FAILED", "not_run": "NOT RUN"}[test.status]
    line = f"{test.label}  {how}"
    if test.status != "not_run":
        line += "  cached" if test.cached else f"  {duration(test.seconds)}"
    if test.attempts > 1:
        line += f"  ({test.passed} of {test.attempts} runs passed)"
    yield line + (f": {test.reason}" if test.reason else "")
    for case in test.cases:
        if case.status == "failed":
            yield f"  {case.name}: {case.message}" + (f" ({case.place})" if case.place else "")
        elif case.status == "not_run" and test.status != "not_run":
            yield f"  {case.name} was not run: {case.message}"


def test_summary(tests: Sequence[TestFinished]) -> str:
    """`4 tests: 2 passed (1 cached), 1 failed, 1 not run`."""
    parts = []
    for status, name in (("passed", "passed"), ("failed", "failed"), ("not_run", "not run")):
        of = [test for test in tests if test.status == status]
        cached = sum(test.cached for test in of)
        if of:
            parts.append(f"{len(of)} {name}" + (f" ({cached} cached)" if cached else ""))
    return f"{count(len(tests), 'test')}: {', '.join(parts)}"


def summary(progress: Progress) -> str:
    """The last line of a build that came to an end."""
    assert progress.finished is not None
    if progress.tests:
        return f"Done in {duration(progress.finished.seconds)}: {counts(progress)}"
    if progress.finished.up_to_date:
        return nothing_to_do(len(progress.built), progress.finished.actions, progress.finished.seconds)
    took = duration(progress.finished.seconds)
    targets = count(len(progress.built), "target")
    if progress.ok:
        return f"Built {targets} in {took}: {counts(progress)}"
    return f"Failed in {took}: {targets} built, {len(progress.unbuilt)} not: {counts(progress)}"


def nothing_to_do(targets: int, actions: int, seconds: float) -> str:
    """The last line of a build for which nothing had changed."""
    return f"Nothing to do: {count(targets, 'target')} up to date ({count(actions, 'action')}) in {duration(seconds)}"


def counts(progress: Progress) -> str:
    """`14 actions, 9 ran, 5 cached`."""
    parts = [count(progress.total, "action"), f"{progress.ran} ran", f"{progress.cached} cached"]
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    if progress.total > progress.done:
        parts.append(f"{progress.total - progress.done} not run")
    return ", ".join(parts)
