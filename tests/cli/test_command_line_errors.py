"""Errors of the command line itself: one line, in modelbuild's words."""

from __future__ import annotations

import pytest

from modelbuild.cli.command_line import run_command

ERRORS = {
    "build --jobs=x": "-j/--jobs: 'x' is not an integer of at least 1 and at most 10000",
    "build --jobs=0": "-j/--jobs: '0' is not an integer of at least 1 and at most 10000",
    "build --profile": "option '--profile' requires an argument",
    "query": "missing EXPRESSION; usage: modelbuild query [OPTIONS] EXPRESSION",
    "history": "no TARGET; expected the label of one, or --on LABEL for tests on a device",
    "explain //:a b": "unexpected argument 'b'; usage: modelbuild explain [OPTIONS] TARGET",
    "history --chck //:a": "no option '--chck'; did you mean '--check'?",
    "affected --format=x": "--format: 'x' is not one of 'label', 'json', 'github-matrix'",
    "cache foo": "no command 'foo'; usage: modelbuild cache [OPTIONS] COMMAND [ARGS]...",
    "buil": "no command 'buil'; did you mean 'build'?",
    "-C /nowhere build": "-C/--workspace: directory '/nowhere' does not exist",
}


@pytest.mark.parametrize("line", ERRORS)
def test_an_error_is_one_line_with_the_expected_value_or_the_usage(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(line.split()) == 2
    assert capsys.readouterr() == ("", f"error: {ERRORS[line]}\n")


@pytest.mark.parametrize("line", [[], ["cache"]])
def test_a_command_without_its_subcommand_prints_its_help(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(line) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"Usage: {' '.join(['modelbuild', *line])} [OPTIONS] COMMAND [ARGS]...\n")
    assert "\nCommands:\n" in printed.err


def test_an_empty_argument_too_many_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["explain", "//:a", ""]) == 2
    expected = "error: unexpected argument ''; usage: modelbuild explain [OPTIONS] TARGET\n"
    assert capsys.readouterr() == ("", expected)
