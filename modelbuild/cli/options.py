"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from modelbuild.build.request import Flags
from modelbuild.workspace.remote_settings import DOWNLOADS, UPLOADS
from modelbuild.workspace.workspace import MOST_JOBS

_OPTIONS = [
    click.option(
        "--device",
        "devices",
        multiple=True,
        metavar="LABEL",
        help="Build for this device target in place of the targets' own; give it again for another one.",
    ),
    click.option("-j", "--jobs", type=click.IntRange(1, MOST_JOBS), help="How many actions run at once."),
    click.option("-k", "--keep-going/--no-keep-going", default=None, help="Go on with what no failure touches."),
    click.option("--config", "profile", metavar="NAME", help="Take flags from [profile.NAME] of MODELBUILD.toml."),
    click.option("--sandbox-debug", is_flag=True, default=None, help="Keep the folders of actions that failed."),
    click.option(
        "--remote-cache",
        metavar="ADDRESS",
        help="Share results over grpc[s]://, http[s]://, s3://, gs://, az:// or file://.",
    ),
    click.option("--remote-upload", type=click.Choice(UPLOADS), help="Who brings results to the remote cache."),
    click.option("--remote-download", type=click.Choice(DOWNLOADS), help="What is fetched from the remote cache."),
    click.option("--remote-executor", metavar="ADDRESS", help="Run actions on workers behind grpc[s]://."),
    click.option(
        "--strategy",
        "strategies",
        multiple=True,
        metavar="ACTION=PLACES",
        help="Where actions of a kind run, such as compile=remote,local; '*' stands for every other kind.",
    ),
    click.option("-q", "--quiet", is_flag=True, default=None, help="Say nothing but what fails."),
    click.option("--json", is_flag=True, default=None, help="Print one JSON object; messages go to stderr."),
]

_REMOTE = ("remote_cache", "remote_upload", "remote_download", "remote_executor", "strategies")


def building(function: Callable[..., Any]) -> Callable[..., Any]:
    """What every command that builds takes; the function gets it as one argument, `flags`."""
    names = ("devices", "jobs", "keep_going", "profile", "sandbox_debug", "quiet", "json", *_REMOTE)

    @wraps(function)
    def gathered(*args: Any, **options: Any) -> Any:
        flags = Flags(**{name: options.pop(name) for name in names})
        return function(*args, flags=flags, **options)

    command: Callable[..., Any] = gathered
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def no_options(patterns: tuple[str, ...]) -> None:
    """Refuse what was meant as an option and taken for a target pattern."""
    for text in patterns:
        if text.startswith("-") and not text.startswith(("-//", "-:")):
            context = click.get_current_context()
            known = [name for parameter in context.command.params for name in parameter.opts if name.startswith("-")]
            from modelbuild.errors import did_you_mean

            raise click.UsageError(f"no option '{text}'{did_you_mean(text, known)}")
