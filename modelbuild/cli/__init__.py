"""The command line. One file per command; each is imported only when used."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with a documented code (see `modelbuild.errors.ExitCode`)."""
    import sys

    from modelbuild.cli.process import finish_process, prepare_process

    prepare_process()
    sys.exit(finish_process(invoke(arguments)))


def invoke(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Prints errors, one line each, on stderr; returns the exit code."""
    import sys

    from modelbuild.cli.null_build import run_null_build

    given = sys.argv[1:] if arguments is None else arguments
    try:
        done = run_null_build(given)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 8  # ExitCode.INTERRUPTED, which is not imported here
    if done is not None:
        return done

    from modelbuild.cli.command_line import run_command

    return run_command(given)
