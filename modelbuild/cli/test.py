"""`modelbuild test`."""

from __future__ import annotations

from typing import Any

import click

from modelbuild.build.request import Flags
from modelbuild.cli.group import Settings
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import building, no_options
from modelbuild.cli.recording import Recording, recording

_OPTIONS = [
    click.option("--cache-test-results/--no-cache-test-results", "cache_results", default=True,
                 help="Take results of earlier runs with the same key."),
    click.option("--runs-per-test", type=click.IntRange(1, 10_000), default=1, help="Run each N times; all must pass."),
    click.option("--flaky-attempts", type=click.IntRange(1, 10_000), default=1, help="Try a test that fails so often."),
    click.option("--require-all", is_flag=True, help="A test, or a case, that is not run is a failure."),
    click.option("--bisect", is_flag=True, help="Where parity fails, find the first node that is wrong."),
    click.option("--test-tag-filters", "tags", default="", metavar="TAG,-TAG", help="Only with, or without, tags."),
]  # fmt: skip


def testing(function: Any) -> Any:
    """What every command that runs tests takes."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def split_tags(text: str) -> tuple[str, ...]:
    """`a,-b` as a list."""
    return tuple(tag for tag in text.split(",") if tag)


@click.command("test", short_help=COMMANDS["test"], context_settings={"ignore_unknown_options": True})
@click.argument("patterns", nargs=-1, required=True, metavar="TARGET...")
@testing
@recording
@building
@click.pass_obj
def command(
    settings: Settings, /, patterns: tuple[str, ...], flags: Flags, recorded: Recording, tags: str, **options: Any
) -> int:
    """Build what tests need, and run those among TARGET and in test suites.

    A test passes when it ran and was right. One that needs what is not on this machine is not run, and said to be so.
    """
    no_options(patterns)
    from dataclasses import replace

    from modelbuild.build.import_folders import import_path, importable
    from modelbuild.build.request import make_request
    from modelbuild.build.snapshot import Seen, Snapshots
    from modelbuild.cli.saved_commands import save_command
    from modelbuild.report import make_reporter
    from modelbuild.report.reporter_scope import reporting
    from modelbuild.testing.record_results import Memory
    from modelbuild.testing.run import TestOptions, run_tests
    from modelbuild.workspace.workspace import find_root, load_workspace

    workspace = load_workspace(find_root(settings.directory))
    request = make_request(workspace, settings.directory, patterns, flags)
    reporter = make_reporter(quiet=request.quiet, as_json=request.json, history=workspace.config.cache_dir)
    reporter = recorded.around(reporter, workspace, settings.directory)
    chosen = TestOptions(tags=split_tags(tags), **options)
    snapshots, purpose = Snapshots.of(workspace), replace(request, purpose=f"test {tags}")
    seen = Seen()
    seen.python.update(importable(import_path()))
    memory = Memory(snapshots, purpose, seen)
    with reporting(reporter):
        tested = run_tests(workspace, request, chosen, reporter, memory=memory)
    if tested.said and not request.json and not recorded.wanted:
        save_command(settings.arguments, snapshots.path(purpose), request.quiet, tested.said)
    return tested.code
