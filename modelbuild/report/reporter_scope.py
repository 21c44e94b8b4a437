"""A reporter for as long as a job takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from modelbuild.errors import ModelbuildError
from modelbuild.events import BuildAborted, Reporter


@contextmanager
def reporting(reporter: Reporter) -> Iterator[Reporter]:
    """Close the reporter at the end, after having told it what ended the job before its time."""
    try:
        yield reporter
    except (ModelbuildError, KeyboardInterrupt) as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        reporter.emit(BuildAborted("interrupted" if interrupted else str(error), interrupted))
        raise
    finally:
        reporter.close()
