"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any, TypeAlias

import click

from modelbuild.cli.completion import PROFILE, TARGET
from modelbuild.cli.targets.pattern_file import Targeted
from modelbuild.errors import UsageError, did_you_mean
from modelbuild.session.request import Flags
from modelbuild.workspace.flags import BUILD_FLAGS, TARGET_FLAGS, Flag

Command: TypeAlias = Callable[..., Any]
Decorator: TypeAlias = Callable[[Command], Command]

FILE = click.Path(dir_okay=False, path_type=Path)


def option(flag: Flag) -> Decorator:
    """Return the option of a flag. A switch has a second form, `--no-...`."""
    names = [f"-{flag.short}"] if flag.short else []
    long = f"--{flag.name}"
    shared: dict[str, Any] = {"default": flag.default, "help": flag.help}
    match flag.kind:
        case "switch":
            also = [f" /{flag.also}"] if flag.also else []
            return click.option(*names, f"{long}/--no-{flag.name}", *also, flag.argument, **shared)
        case "count":
            shared["type"] = click.IntRange(1, flag.most)
        case "choice":
            shared["type"] = click.Choice(flag.choices)
        case "file":
            shared |= {"type": FILE, "metavar": "FILE"}
        case "label":
            shared |= {"type": TARGET, "metavar": flag.metavar, "multiple": flag.repeated}
        case "input":
            shared |= {"metavar": flag.metavar}
        case _:
            shared |= {"metavar": flag.metavar, "multiple": flag.repeated}
    return click.option(*names, long, flag.argument, **shared)


def options(flags: Iterable[Flag]) -> Decorator:
    """Return a decorator that adds the options of flags to a command's function."""
    return lambda function: _decorated(function, map(option, flags))


def _use_profile(context: click.Context, _: click.Parameter, name: str | None) -> None:
    """Make a profile's flags the defaults of the command's options."""
    if name is None or context.resilient_parsing:
        return

    profiles = context.obj.workspace().config.profiles
    if name not in profiles:
        raise UsageError(f"no [profile.{name}] in MODELBUILD.toml{did_you_mean(name, profiles)}")
    context.default_map = dict(profiles[name])


_PROFILE = click.option(
    "--config",
    callback=_use_profile,
    expose_value=False,
    is_eager=True,
    type=PROFILE,
    metavar="NAME",
    help="Use flags from [profile.NAME] of MODELBUILD.toml.",
)


def gather(
    function: Command, decorators: Iterable[Decorator], argument: str, names: Iterable[str], make: Callable[..., object]
) -> Command:
    """Add options to a command's function, which gets them as one argument: the object that `make` returns for them,
    by the names of their parameters."""
    own = tuple(names)

    @wraps(function)
    def gathered(*args: Any, **given: Any) -> Any:
        made = make(**{name: given.pop(name) for name in own})
        return function(*args, **{argument: made}, **given)

    return _decorated(gathered, decorators)


def _decorated(function: Command, decorators: Iterable[Decorator]) -> Command:
    for decorator in reversed(tuple(decorators)):
        function = decorator(function)
    return function


def building(function: Command) -> Command:
    """Add the options of every command that builds; the function gets them as one argument, `flags`."""
    return _building(function, BUILD_FLAGS)


def building_in_several(function: Command) -> Command:
    """Add the options of a command that builds in several toolchains: the function gets `flags` without a toolchain."""
    return _building(function, [flag for flag in BUILD_FLAGS if flag.kind != "toolchain"])


def _building(function: Command, flags: Iterable[Flag]) -> Command:
    flags = tuple(flags)
    names = [flag.argument for flag in flags]
    return gather(function, [_PROFILE, *map(option, flags)], "flags", names, Flags)


def targeting(function: Command) -> Command:
    """Add the options of `build`, `test` and `ci` about targets; the function gets `targeted`."""
    names = [flag.argument for flag in TARGET_FLAGS]
    return gather(function, map(option, TARGET_FLAGS), "targeted", names, Targeted)


def no_options(patterns: tuple[str, ...]) -> None:
    """Raise click.UsageError for a misspelled option that was parsed as a target pattern."""
    for text in patterns:
        if text.startswith("-") and not text.startswith(("-//", "-:")):
            context = click.get_current_context()
            known = [
                name
                for parameter in context.command.params
                for name in (*parameter.opts, *parameter.secondary_opts)
                if name.startswith("-")
            ]

            raise click.UsageError(f"no option '{text}'{did_you_mean(text, known)}")
