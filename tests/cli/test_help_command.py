"""`modelbuild help`: rules of the workspace or built-in ones, their attributes, and errors."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from modelbuild.analysis.rules import load_rules
from modelbuild.cli import invoke
from modelbuild.cli.group import cli
from modelbuild.errors import ExitCode
from tests.workspace_builder import Workspace

Help = Callable[..., tuple[int, str, str]]


@pytest.fixture
def help_of(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> Help:
    """Return a function that runs `modelbuild help ...` in the workspace; it returns the exit code and the output."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = invoke(["-C", str(workspace.root), "help", *arguments])
        return code, *capsys.readouterr()

    return run


def test_lists_every_rule_with_its_summary_outside_of_a_workspace(help_of: Help, repository: Path) -> None:
    code, out, err = help_of()
    assert (code, err) == (0, "")
    named = [line.split()[0] for line in out.splitlines() if line.startswith("  ") and line[2] != " "]
    assert named == sorted(load_rules(repository, []).by_name)
    assert re.search(r"^  filegroup +Files that other targets use\.$", out, re.MULTILINE)


def test_describes_a_rule_with_types_defaults_meaning_and_an_example(help_of: Help) -> None:
    code, out, err = help_of("torch_model")
    assert (code, err) == (0, "")
    assert "  inputs: list of table ModelInput, required\n" in out
    assert "  seed: integer, default 0\n      Seed of torch, random" in out
    assert "\ntable ModelInput\n" in out
    assert "  visibility: list of string\n" in out
    example = out.partition("\nexample\n\n")[2].partition("\n\nattributes\n")[0]
    assert tomllib.loads(example)["torch_model"][0]["entry"] == "net.py:Net"
    assert max(map(len, out.splitlines())) <= 100


def test_describes_the_workspaces_own_rules(workspace: Workspace, help_of: Help, example_rules: dict[str, str]) -> None:
    workspace.write({**example_rules, "srcs": "1\n"})
    code, out, _ = help_of("checksums")
    assert code == 0
    assert "  uppercase: boolean, default false\n      Write digests in capital letters.\n" in out
    assert "  checksums " in help_of()[1]
    example = out.partition("\nexample\n\n")[2].partition("\n\nattributes\n")[0]
    workspace.write({"BUILD.toml": example})
    assert workspace.build("//:my_checksums").json["ok"]


@pytest.mark.parametrize("name", ["xnnpack", "Xnnpack"])
def test_describes_a_table_inside_attributes(help_of: Help, name: str) -> None:
    code, printed, _ = help_of(name)
    assert code == 0
    assert printed.startswith("table Xnnpack\n")
    assert "  exclude_ops: list of string" in printed


@pytest.mark.parametrize("name", ["build", "cache", "help"])
def test_describes_a_command_as_its_help_option_does(help_of: Help, name: str) -> None:
    asked = CliRunner().invoke(cli, [name, "--help"], prog_name="modelbuild")
    assert asked.exit_code == 0
    assert help_of(name)[1].split() == asked.stdout.split()


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("torch_modle", "no rule 'torch_modle'; did you mean 'torch_model'?"),
        ("biuld", "no rule 'biuld'; did you mean 'build'?"),
        ("tensort", "no rule 'tensort'; did you mean 'Tensorrt'?"),
        ("zzzz", "no rule 'zzzz'; modelbuild help lists the rules"),
    ],
)
def test_an_unknown_rule_is_one_line_with_the_nearest_name(help_of: Help, name: str, problem: str) -> None:
    assert help_of(name) == (ExitCode.USAGE, "", f"error: {problem}\n")


def test_a_rule_package_that_does_not_load_is_an_error(workspace: Workspace, help_of: Help) -> None:
    workspace.write({"MODELBUILD.toml": 'rules = ["//gone"]\n'})
    code, out, err = help_of("torch_model")
    assert (code, out) == (ExitCode.LOADING_FAILED, "")
    assert err.startswith("error: MODELBUILD.toml:1:")
