"""`modelbuild build`."""

from __future__ import annotations

import click

from modelbuild.cli.group import Settings
from modelbuild.cli.options import building


@click.command("build", short_help="Build targets and lay out their outputs.")
@click.argument("patterns", nargs=-1, required=True, metavar="TARGET...")
@building
@click.pass_obj
def command(
    settings: Settings,
    patterns: tuple[str, ...],
    devices: tuple[str, ...],
    jobs: int | None,
    keep_going: bool | None,
    profile: str | None,
    sandbox_debug: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Build targets and lay out their outputs below modelbuild-out/.

    TARGET is //package:name, //package, :name, //package/..., //package:all; -TARGET takes out what came before.
    """
    from modelbuild.building.build import build
    from modelbuild.building.request import Request
    from modelbuild.report import make_reporter

    request = Request(settings.directory, patterns, devices, jobs, keep_going, profile, sandbox_debug)
    reporter = make_reporter(quiet=quiet, as_json=as_json)
    try:
        return build(request, reporter).code
    finally:
        reporter.close()
