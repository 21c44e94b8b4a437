"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import wraps
from typing import Any, TypeAlias

import click

from modelbuild.build.request import Flags
from modelbuild.workspace.remote_settings import DOWNLOADS, UPLOADS
from modelbuild.workspace.workspace import MOST_JOBS

Command: TypeAlias = Callable[..., Any]
Decorator: TypeAlias = Callable[[Command], Command]

_OPTIONS = [
    click.option(
        "--device",
        "devices",
        multiple=True,
        metavar="LABEL",
        help="Build for this device; may be repeated for several devices.",
    ),
    click.option("-j", "--jobs", type=click.IntRange(1, MOST_JOBS), help="Number of actions that run at once."),
    click.option("-k", "--keep-going/--no-keep-going", default=None, help="Continue with unaffected actions."),
    click.option("--action-timeout", metavar="DURATION", help="Fail actions that run longer, such as '30 min'."),
    click.option("--config", "profile", metavar="NAME", help="Use flags from [profile.NAME] of MODELBUILD.toml."),
    click.option("--sandbox-debug", is_flag=True, default=None, help="Keep the folders of failed actions."),
    click.option(
        "--remote-cache",
        metavar="ADDRESS",
        help="Share results over grpc[s]://, http[s]://, s3://, gs://, az:// or file://.",
    ),
    click.option("--remote-upload", type=click.Choice(UPLOADS), help="When to upload results to the remote cache."),
    click.option("--remote-download", type=click.Choice(DOWNLOADS), help="Outputs to download from the remote cache."),
    click.option("--remote-executor", metavar="ADDRESS", help="Run actions on workers behind grpc[s]://."),
    click.option(
        "--strategy",
        "strategies",
        multiple=True,
        metavar="ACTION=PLACES",
        help="Where a kind of action runs, such as compile=remote,local; '*': others.",
    ),
    click.option("-q", "--quiet", is_flag=True, default=None, help="Print failures only."),
    click.option("--json", is_flag=True, default=None, help="Print one JSON object; messages go to stderr."),
]


def gather(
    function: Command, options: Sequence[Decorator], argument: str, names: Iterable[str], make: Callable[..., object]
) -> Command:
    """Add options to a command's function, which gets them as one argument: the object that `make` returns for them,
    by the names of their parameters."""
    own = tuple(names)

    @wraps(function)
    def gathered(*args: Any, **given: Any) -> Any:
        made = make(**{name: given.pop(name) for name in own})
        return function(*args, **{argument: made}, **given)

    command: Command = gathered
    for option in reversed(options):
        command = option(command)
    return command


def building(function: Command) -> Command:
    """Add the options of every command that builds; the function gets them as one argument, `flags`."""
    return gather(function, _OPTIONS, "flags", [field.name for field in fields(Flags)], Flags)


def no_options(patterns: tuple[str, ...]) -> None:
    """Raise click.UsageError for a misspelled option that was parsed as a target pattern."""
    for text in patterns:
        if text.startswith("-") and not text.startswith(("-//", "-:")):
            context = click.get_current_context()
            known = [name for parameter in context.command.params for name in parameter.opts if name.startswith("-")]
            from modelbuild.errors import did_you_mean

            raise click.UsageError(f"no option '{text}'{did_you_mean(text, known)}")
