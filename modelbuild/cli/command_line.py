"""Run a command line with click."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from modelbuild.cli import completion
from modelbuild.cli.group import cli
from modelbuild.cli.problems import ending
from modelbuild.errors import ExitCode
from modelbuild.lines import one_line
from modelbuild.report.text import write

# The variable with which shells ask for completions.
COMPLETE = "_MODELBUILD_COMPLETE"


def run_command(arguments: Sequence[str]) -> ExitCode:
    """Run the command line. Prints errors, one line each, on stderr; returns the exit code."""
    return ending(lambda: _run(arguments), "--verbose-failures" in arguments)


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
