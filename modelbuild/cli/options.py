"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def building(function: F) -> F:
    """What every command that builds takes."""
    for option in reversed(
        [
            click.option(
                "--device",
                "devices",
                multiple=True,
                metavar="LABEL",
                help="Build for this device target in place of the targets' own; give it again for another one.",
            ),
            click.option("-j", "--jobs", type=click.IntRange(min=1), help="How many actions run at once."),
            click.option(
                "-k", "--keep-going/--no-keep-going", default=None, help="Build what does not depend on a failure."
            ),
            click.option(
                "--config", "profile", metavar="NAME", help="Take flags from [profile.NAME] of MODELBUILD.toml."
            ),
            click.option("--sandbox-debug", is_flag=True, help="Keep the folders in which actions ran, and say where."),
            click.option("-q", "--quiet", is_flag=True, help="Say nothing but what fails."),
            click.option("--json", "as_json", is_flag=True, help="Print one JSON object; messages go to stderr."),
        ]
    ):
        function = option(function)
    return function
