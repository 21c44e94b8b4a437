"""Commands that rule packages declare: see modelbuild/api/command.py."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from modelbuild.api.command import Command, Option
from modelbuild.build_record.stale_targets import BuiltTarget
from modelbuild.cli.completion import TARGET
from modelbuild.cli.options import building, no_options
from modelbuild.cli.recording import Recording, recording
from modelbuild.cli.settings import Settings
from modelbuild.errors import ExitCode
from modelbuild.lines import one_line
from modelbuild.report import make_reporter
from modelbuild.report.reporter_scope import reporting
from modelbuild.session.build import build
from modelbuild.session.request import Flags, make_request


def click_command(declared: Command) -> click.Command:
    """Return the click command for a declared command."""

    @click.pass_obj
    def run(
        settings: Settings, /, patterns: tuple[str, ...], flags: Flags, recorded: Recording, **options: Any
    ) -> ExitCode:
        no_options(patterns)
        return _run(declared, settings, patterns, flags, recorded, options)

    function: Any = recording(building(run))
    for option in reversed(declared.options):
        function = _option(option)(function)
    function = click.argument("patterns", nargs=-1, required=True, metavar="TARGET...", type=TARGET)(function)
    about = f"{declared.help}\n\n{declared.about}"
    return click.command(
        declared.name, short_help=declared.help, help=about, context_settings={"ignore_unknown_options": True}
    )(function)


def _option(option: Option) -> Any:
    kind = click.IntRange(0) if isinstance(option.default, int) else str
    return click.option(
        f"--{option.name}",
        type=kind,
        default=option.default,
        show_default=bool(option.default),
        help=option.help,
        metavar=option.metavar or None,
    )


def _run(
    declared: Command,
    settings: Settings,
    patterns: tuple[str, ...],
    flags: Flags,
    recorded: Recording,
    options: Mapping[str, Any],
) -> ExitCode:
    workspace = settings.workspace()
    request = make_request(workspace, settings.directory, patterns, flags).keeping_going()
    request = request.of_groups([declared.group(options)])
    display = request.display
    if declared.show is not None:
        request = request.with_outputs_here()
    if declared.show is None or declared.after_build:
        reporter = make_reporter(quiet=display.quiet, as_json=display.json, show=display.outputs)
    else:
        reporter = make_reporter(quiet=display.only_results, results=sys.stderr, show="none")
    with reporting(recorded.around(reporter, workspace, settings)) as reporter:
        result = build(workspace, request, reporter)
    shows = not display.only_results if declared.after_build else result.code == ExitCode.OK
    if declared.show is not None and shows:
        for target in result.targets:
            for line in declared.show(target.label, _files(workspace.root, target), {**options, "json": display.json}):
                click.echo(one_line(line))
    return result.code


def _files(root: Path, target: BuiltTarget) -> Mapping[str, bytes]:
    """Return the bytes of files by their names, without folders."""
    paths = [root / output for output in target.outputs]
    return {path.name: path.read_bytes() for path in paths if path.is_file()}
