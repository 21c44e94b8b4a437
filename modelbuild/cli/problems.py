"""Put what goes wrong into a line and an exit code."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

from modelbuild.errors import ExitCode, ModelbuildError


def ending(work: Callable[[], int | None], verbose: bool) -> ExitCode:
    """Do a command's work. Prints errors, one line each, on stderr; returns the exit code."""
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:  # which CI systems send: as Ctrl-C
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return ExitCode(work() or 0)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # nobody reads any more: end quietly, as other filters do
        return ExitCode.OK
    except Exception as error:
        if verbose:
            import traceback

            traceback.print_exc()
        if isinstance(error, ModelbuildError):
            sys.stderr.write(f"error: {error}\n")
            return error.exit_code
        hint = "a bug worth reporting; --verbose-failures shows where"
        sys.stderr.write(f"internal error: {type(error).__name__}: {error} ({hint})\n")
        return ExitCode.INTERNAL
