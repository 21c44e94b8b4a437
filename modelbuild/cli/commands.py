"""Run a command, and put what goes wrong into a line and an exit code."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

import click

from modelbuild.cli.group import cli
from modelbuild.errors import ExitCode, ModelbuildError


def run_command(arguments: Sequence[str]) -> ExitCode:
    """Run the command line. Prints errors, one line each, on stderr; returns the exit code."""
    verbose = "--verbose-failures" in arguments
    try:
        return ExitCode(
            cli.main(list(arguments), prog_name="modelbuild", standalone_mode=False, obj=tuple(arguments)) or 0
        )
    except click.exceptions.Exit as error:
        return ExitCode(error.exit_code)
    except click.ClickException as error:
        click.echo(f"error: {error.format_message()}", err=True)
        return ExitCode.USAGE
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return ExitCode.INTERRUPTED
    except ModelbuildError as error:
        if verbose:
            traceback.print_exc()
        click.echo(f"error: {error}", err=True)
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()  # nobody reads any more: end quietly, as other filters do
        return ExitCode.OK
    except Exception as error:
        if verbose:
            traceback.print_exc()
        click.echo(
            f"internal error: {type(error).__name__}: {error} (a bug worth reporting; --verbose-failures shows where)",
            err=True,
        )
        return ExitCode.INTERNAL
