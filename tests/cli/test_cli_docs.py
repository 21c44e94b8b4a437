"""docs/reference/cli.md and cli/ against the command line: commands, flags, exit codes, members of JSON objects."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from modelbuild.cli.group import cli
from modelbuild.cli.names import COMMANDS, FOLDERS
from modelbuild.errors import ExitCode
from modelbuild.report.json_object import JsonReporter


@pytest.fixture(scope="module")
def text(repository: Path) -> str:
    reference = repository / "docs/reference"
    pages = [reference / "cli.md", *sorted(reference.glob("cli/*.md"))]
    return re.sub(r"<!--.*?-->", "", "\n".join(page.read_text() for page in pages))


def commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(cli)
    yield "", cli
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {sub}", one) for sub, one in command.commands.items())


def test_every_command_has_a_file_and_every_file_is_a_command(repository: Path) -> None:
    files = (repository / "modelbuild/cli/commands").glob("*/*.py")
    placed = {(file.parent.name, file.stem.replace("_", "-")) for file in files if file.name != "__init__.py"}
    assert placed == {(folder, name) for folder, names in FOLDERS.items() for name in names}
    assert sorted(name for _, name in placed) == sorted(COMMANDS)


def test_every_command_and_flag_is_there(text: str) -> None:
    for name, command in commands():
        assert not name or f"`modelbuild {name}" in text, name
        for parameter in command.params:
            for flag in parameter.opts:  # cli.md has one sentence about the others, such as --no-quiet
                if flag.startswith("-"):
                    assert re.search(rf"[`, ]{flag}\b", text), f"{name} {flag}"


def test_every_flag_that_is_there_exists(text: str) -> None:
    known = {flag for _, c in commands() for p in c.params for flag in (*p.opts, *p.secondary_opts)}
    of_the_runtime = {"--describe", "--events", "--no-verify", "--save-inputs", "--verify"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) <= known | of_the_runtime | {"--help"}


def test_exit_codes(text: str) -> None:
    table = text.partition("\n## Exit codes")[2].partition("\n# ")[0]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)] == sorted(ExitCode)


def test_json_members(text: str) -> None:
    out = io.StringIO()
    reporter = JsonReporter(out, io.StringIO())
    reporter.close()
    table = text.partition("### `--json`")[2].partition("\n## ")[0]
    members = [
        name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    ]
    assert sorted(members) == sorted(json.loads(out.getvalue()))


def test_keys_of_info(text: str) -> None:
    from modelbuild.cli.commands.machine.info import gather
    from modelbuild.workspace.workspace import load_workspace

    section = text.partition("\n## info")[2].partition("\n## ")[0].partition("Keys:")[2].partition("`--json`")[0]
    root = Path(__file__).parents[2] / "examples"
    assert re.findall(r"`(\w+)`", section) == list(gather(load_workspace(root)))
