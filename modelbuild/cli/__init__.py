"""The command line. One file a command; each is imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from modelbuild.errors import ExitCode


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with a documented code (see `modelbuild.errors.ExitCode`)."""
    import sys

    sys.exit(invoke(arguments))


def invoke(arguments: Sequence[str] | None = None) -> ExitCode:
    """Run the command line. Prints errors, one line each, on stderr; returns the exit code."""
    import sys
    import traceback

    import click

    from modelbuild.cli.group import cli
    from modelbuild.errors import ModelbuildError

    given = list(sys.argv[1:] if arguments is None else arguments)
    verbose = "--verbose-failures" in given
    try:
        return ExitCode(cli.main(given, prog_name="modelbuild", standalone_mode=False) or 0)
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
