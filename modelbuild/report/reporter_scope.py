"""Keep secrets from a reporter, and close it at the end of a job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from modelbuild.errors import ExitCode, ModelbuildError
from modelbuild.events import BuildAborted, Reporter
from modelbuild.report.redacted_events import RedactedEvents


@contextmanager
def reporting(reporter: Reporter) -> Iterator[Reporter]:
    """Yield the reporter behind RedactedEvents. Close it at the end, and report an error or interrupt that ended the
    job."""
    reporter = RedactedEvents(reporter)
    try:
        yield reporter
    except (ModelbuildError, KeyboardInterrupt) as error:
        if isinstance(error, ModelbuildError):
            reporter.emit(BuildAborted(str(error), exit=error.exit_code))
        else:
            reporter.emit(BuildAborted("interrupted", interrupted=True, exit=ExitCode.INTERRUPTED))
        raise
    finally:
        reporter.close()
