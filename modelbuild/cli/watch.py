"""`--watch`: run a command again after each change of a file in the workspace.

Each run is a new process, so it cannot use stale data of an earlier run.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from modelbuild.errors import UsageError
from modelbuild.lines import one_line
from modelbuild.user_files import BESIDE
from modelbuild.workspace.workspace import OUTPUT_FOLDER, find_root, load_workspace

if TYPE_CHECKING:
    from modelbuild.cli.options import Command
    from modelbuild.cli.settings import Settings

_FLAG = "--watch"
_SHOWN = 3
_POLL = 100
"""Milliseconds between two looks at the keyboard interrupt and at changes."""


def watching(function: Command) -> Command:
    """Add the option --watch to a command."""

    @wraps(function)
    def watched(settings: Settings, /, watch: bool, **given: Any) -> Any:
        if not watch:
            return function(settings, **given)
        return _run_on_changes(settings, click.get_current_context().params.values())

    return click.option(
        _FLAG, "watch", is_flag=True, help="Run again after each change in the workspace, until Ctrl-C."
    )(watched)


def _run_on_changes(settings: Settings, options: Iterable[object]) -> NoReturn:
    """Run the command without --watch, and again after each change, until an interrupt.

    Changes of the command's own outputs do not count: modelbuild-out/, the cache, paths among the options, and files
    that standard output and error go to.
    """
    try:
        import watchfiles
    except ImportError:
        raise UsageError("--watch needs watchfiles; expected: pip install 'modelbuild[watch]'") from None

    root = find_root(settings.directory)
    given = [each for option in options for each in (option if isinstance(option, tuple) else (option,))]
    written = [settings.directory / path for path in given if isinstance(path, Path)]
    written += [Path("/proc/self/fd/1"), Path("/proc/self/fd/2")]
    ignored = [root / OUTPUT_FOLDER, load_workspace(root).config.cache_dir, *written]
    names = (*watchfiles.DefaultFilter.ignore_entity_patterns, BESIDE)
    sources = watchfiles.DefaultFilter(ignore_entity_patterns=names, ignore_paths=[path.resolve() for path in ignored])
    first = True
    # The first set of changes is empty: it comes when the watcher is ready, before the first run reads a file.
    for changes in _changes(root, sources):
        if first or changes:
            _show(root, changes)
            _run(settings.arguments)
            first = False
    raise AssertionError("watchfiles ends with an interrupt")


def _changes(root: Path, sources: Callable[[Any, str], bool]) -> Iterator[list[str]]:
    """Yield the paths of changed files, also none. Raises UsageError if the folder cannot be watched."""
    import watchfiles

    try:
        for changes in watchfiles.watch(root, watch_filter=sources, rust_timeout=_POLL, yield_on_timeout=True):
            yield [path for _, path in changes]
    # The second is a RuntimeError that the module does not export.
    except (OSError, RuntimeError) as error:
        problem = one_line(str(error))
        raise UsageError(f"{_FLAG}: {problem}; set WATCHFILES_FORCE_POLLING=1 to poll all files instead") from None


def _show(root: Path, paths: Iterable[str]) -> None:
    names = sorted({str(Path(path).relative_to(root)) for path in paths})
    if names:
        rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        click.echo(f"changed: {', '.join(names[:_SHOWN])}{rest}", err=True)


def _run(arguments: Sequence[str]) -> None:
    """Run modelbuild with the arguments, without --watch, which may be there more than once."""
    # -P: modules in the user's folder must not replace ours.
    command = [sys.executable, "-P", "-m", "modelbuild", *(each for each in arguments if each != _FLAG)]
    # In a process group of its own, so that it gets an interrupt only from here, and only once.
    with subprocess.Popen(command, process_group=0) as process:
        try:
            process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
