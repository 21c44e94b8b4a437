"""Run a command line with click."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import TextIO, cast

import click

from modelbuild.cli import completion
from modelbuild.cli.group import cli
from modelbuild.errors import EnvironmentProblem, ExitCode, ModelbuildError
from modelbuild.lines import one_line
from modelbuild.redaction import without_secrets
from modelbuild.report.text import PrintableStream, write

# The variable with which shells ask for completions.
COMPLETE = "_MODELBUILD_COMPLETE"
# Codes with which any system call reports a lack of resources.
_LACKING = frozenset((errno.EAGAIN, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC))


def run_command(arguments: Sequence[str]) -> ExitCode:
    """Run the command line. Prints errors, one line each, on stderr; returns the exit code."""
    return _ending(lambda: _run(arguments), "--verbose-failures" in arguments)


def _run(arguments: Sequence[str]) -> int | None:
    if COMPLETE in os.environ:
        completion.use()
    try:
        code: int | None = cli.main(
            list(arguments), prog_name="modelbuild", standalone_mode=False, obj=tuple(arguments)
        )
        return code
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return ExitCode.USAGE
    except click.ClickException as error:
        from modelbuild.cli.click_errors import message

        write(sys.stderr, f"error: {one_line(message(error))}")
        return ExitCode.USAGE
    except click.Abort:
        raise KeyboardInterrupt from None
    except (KeyError, ValueError):
        if os.environ.get(COMPLETE):  # the shell did not pass its words or their position
            return ExitCode.USAGE
        raise


def _ending(work: Callable[[], int | None], verbose: bool) -> ExitCode:
    """Run a command. Prints errors, one line each, on stderr; returns the exit code."""
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:  # CI systems send SIGTERM; it is handled like Ctrl-C
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # like stderr: paths and terminals need not be UTF-8
    # Not for what reporters write: they print colors and a progress bar around printable text.
    out, err = PrintableStream(sys.stdout), PrintableStream(sys.stderr)
    try:
        with redirect_stdout(cast("TextIO", out)), redirect_stderr(cast("TextIO", err)):
            return ExitCode(work() or 0)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return ExitCode.INTERRUPTED
    except Exception as error:
        if verbose:
            import traceback

            traceback.print_exc()
        problem = _of_the_machine(error) or error
        if isinstance(problem, ModelbuildError):
            write(sys.stderr, f"error: {one_line(without_secrets(str(problem)))}")
            return problem.exit_code
        hint = "please report this bug; --verbose-failures shows the traceback"
        write(sys.stderr, f"internal error: {type(error).__name__}: {one_line(without_secrets(str(error)))} ({hint})")
        return ExitCode.INTERNAL


def _of_the_machine(error: Exception) -> EnvironmentProblem | None:
    if isinstance(error, MemoryError):
        return EnvironmentProblem("out of memory")
    if isinstance(error, OSError) and error.filename is not None:
        return EnvironmentProblem(f"{os.fsdecode(error.filename)}: {error.strerror}")
    if isinstance(error, OSError) and error.errno in _LACKING:
        return EnvironmentProblem(str(error.strerror))
    return None
