"""Keep secrets from a reporter, and close it at the end of a job."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from modelbuild.errors import ExitCode, ModelbuildError
from modelbuild.events import BuildAborted, Reporter
from modelbuild.lines import one_line
from modelbuild.report.redacted_events import RedactedEvents
from modelbuild.report.text import write


@contextmanager
def reporting(reporter: Reporter) -> Iterator[Reporter]:
    """Yield the reporter behind RedactedEvents. Close it at the end, and report an error or interrupt that ended the
    job. Raises as the reporter's close(), unless the job ended with an error."""
    reporter = RedactedEvents(reporter)
    try:
        yield reporter
    except BaseException as error:
        if isinstance(error, ModelbuildError):
            reporter.emit(BuildAborted(str(error), exit=error.exit_code))
        elif isinstance(error, KeyboardInterrupt):
            reporter.emit(BuildAborted("interrupted", interrupted=True, exit=ExitCode.INTERRUPTED))
        try:
            reporter.close()
        except ModelbuildError as problem:
            write(sys.stderr, f"error: {one_line(str(problem))}")
        raise
    reporter.close()
