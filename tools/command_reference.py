"""The generated parts of docs/reference/cli*: the usage, description and flags of each command, from click.

A part of a page is between `<!--help:COMMAND-->` and `<!--end-->`; the rest of the page is written by hand.
`<!--help:flags of builds-->` and so on are the groups of flags that several commands have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import click

from modelbuild.cli.group import cli
from modelbuild.workspace.flags import BUILD_FLAGS, RECORDING_FLAGS, TARGET_FLAGS, TEST_FLAGS

PART = re.compile(r"(<!--help:(.+?)-->\n).*?(<!--end-->)", re.DOTALL)
GROUPS = {
    "flags of builds": ("build", "cli.md#flags-of-builds", {"config", *(flag.argument for flag in BUILD_FLAGS)}),
    "flags for CI": (
        "build",
        "cli.md#flags-for-ci",
        {flag.argument for flag in (*TARGET_FLAGS, *RECORDING_FLAGS)},
    ),
    "flags for tests": ("test", "cli/test.md#flags-for-tests", {flag.argument for flag in TEST_FLAGS}),
    "flags for publishing": (
        "publish",
        "cli/publish.md#flags-for-publishing",
        {"to", "replace", "provenance", "builder", "sbom", "key", "certificate", "certificate_chain"},
    ),
}
"""Parameters that several commands share: a command that has them, the heading that lists them, and their names."""


def with_help(page: str, folder: str) -> str:
    """Return a page with its parts written anew. `folder` is the way from the page to docs/reference, such as `../`.

    Raises KeyError for an unknown command.
    """
    return PART.sub(lambda part: f"{part[1]}\n{_text(part[2], folder)}\n\n{part[3]}", page)


def _text(name: str, folder: str) -> str:
    if name in GROUPS:
        command = _command(GROUPS[name][0])
        return "\n".join(_flags(command, [each for each in command.params if each.name in GROUPS[name][2]]))
    command = _command(name)
    context = click.Context(command, info_name=f"modelbuild {name}")
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)[1:]])
    about = [" ".join(part.split()) for part in (command.help or "").split("\n\n")]
    own = {each.name: each for each in command.params}
    shared = []
    for group, (source, anchor, names) in GROUPS.items():
        has = {each.name for each in _command(source).params if each.name in names and _equal(each, own.get(each.name))}
        if len(has) > len(names) / 2:
            own = {key: each for key, each in own.items() if key not in has}
            lacking = [each for each in _command(source).params if each.name in names - has and each.name not in own]
            but = ", ".join(f"`{each.opts[-1]}`" for each in lacking)
            shared.append(f"[{group}]({folder}{anchor}){f', except {but}' if but else ''}")
    flags = "\n".join([*_flags(command, own.values()), *([f"- Also: {'; '.join(shared)}"] if shared else [])])
    return "\n\n".join(part for part in (f"`{usage}`", *map(_escaped, about), flags) if part)


def _command(name: str) -> click.Command:
    command: click.Command = cli
    for word in name.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        if found is None:
            raise KeyError(name)
        command = found
    return command


def _equal(parameter: click.Parameter, other: click.Parameter | None) -> bool:
    return other is not None and (parameter.opts, parameter.multiple) == (other.opts, other.multiple)


def _flags(command: click.Command, parameters: Iterable[click.Parameter]) -> Iterator[str]:
    """Yield a line for each option. The opposite of a switch is shown where the switch is the default. cli.md describes
    `--json`."""
    context = click.Context(command)
    for each in parameters:
        record = each.get_help_record(context)
        if isinstance(each, click.Option) and record is not None:
            names, about = record
            if each.secondary_opts and each.default is not True:
                names = names.partition(" / ")[0]
            names = re.sub(r"INTEGER( RANGE)?", "N", names)
            about = re.sub(r"(?:; |(?<=\[))(\d+<=)?x(<=|>=)\d+(?=\])", "", about).replace("[]", "").strip()
            yield f"- `{names}`" if about == "Print one JSON object." else f"- `{names}`: {_escaped(about)}"


def _escaped(text: str) -> str:
    parts = text.split("`")
    return "`".join(part if index % 2 else re.sub(r"__|\*|<|\[", r"\\\g<0>", part) for index, part in enumerate(parts))
