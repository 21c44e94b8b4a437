"""Completion of commands, targets and profiles, as shells ask for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from modelbuild.cli.command_line import COMPLETE
from modelbuild.cli.completion import Bash
from modelbuild.cli.group import cli
from modelbuild.cli.names import COMMANDS

BUILD = """
[[torch_model]]
name = "detector_model"

[[pte_program]]
name = "detector"
outputs = [
    { about = "not a name", name = "x" },
]
about = '''
name = "nothing"
'''

[[pte_program]]
name = 'classifier_{stack}'
"""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write //models, //models/big (with different targets) and //tools."""
    (tmp_path / "MODELBUILD.toml").touch()
    for package, text in {"models": BUILD, "models/big": '[[x]]\nname = "big"\n', "tools": "", ".git": ""}.items():
        (tmp_path / package).mkdir(parents=True)
        (tmp_path / package / "BUILD.toml").write_text(text)
    (tmp_path / "models" / "src").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def completed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """Return a function: the text that bash would insert at the end of a line; bash splits words at colons as well."""

    def complete(line: str) -> list[str]:
        words = line.replace(":", " : ").split(" ")
        words = [word for word in words[:-1] if word] + words[-1:]
        monkeypatch.setenv("COMP_WORDS", "\n".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        answer = Bash(cli, {}, "modelbuild", COMPLETE).complete()
        return [row.partition(",")[2] for row in answer.splitlines()]

    return complete


def test_commands(completed: Callable[[str], list[str]]) -> None:
    """Also of rule packages."""
    assert completed("modelbuild ") == sorted({*COMMANDS, "check", "quantize-report"})
    assert completed("modelbuild c") == ["cache", "check", "ci", "clean", "compare", "cquery"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("modelbuild build ", ["//"]),
        ("modelbuild ci //models:det", ["detector_model", "detector"]),
        ("modelbuild -C models build ", ["//", "detector_model", "detector", "classifier_"]),
        ("modelbuild -C models build det", ["detector_model", "detector"]),
        ("modelbuild -C models test b", ["big:big"]),
        ("modelbuild -C models test big:", ["big"]),
        ("modelbuild build m", ["models:detector_model", "models:detector", "models:classifier_"]),
        ("modelbuild build models", ["models:", "models/big:"]),
        ("modelbuild build models:det", ["detector_model", "detector"]),
        ("modelbuild build nowhere:det", []),
        ("modelbuild build //", ["//models", "//tools"]),
        ("modelbuild build //t", []),
        ("modelbuild build //mo", ["//models:detector_model", "//models:detector", "//models:classifier_"]),
        ("modelbuild build //models", ["//models", "//models/big"]),
        ("modelbuild build //models/b", ["//models/big:big"]),
        ("modelbuild build //models:det", ["detector_model", "detector"]),
        ("modelbuild build //models:nothing", []),
        ("modelbuild -C models build :cl", ["classifier_"]),
        ("modelbuild test //models/big:", ["big"]),
        ("modelbuild query //nowhere:", []),
        ("modelbuild build --device //models:det", ["detector_model", "detector"]),
        ("modelbuild -C models affected --since HEAD --device :det", ["detector_model", "detector"]),
        ("modelbuild ci --device ", ["//"]),
    ],
)
def test_labels(workspace: Path, completed: Callable[[str], list[str]], line: str, expected: list[str]) -> None:
    assert completed(line) == expected


def test_names_of_a_matrix(workspace: Path, completed: Callable[[str], list[str]]) -> None:
    matrix = "matrix = { size = [1, 22], fast = [true, false], exclude = [{ size = 1, fast = false }] }"
    workspace.joinpath("tools/BUILD.toml").write_text(
        f'[[x]]\nname = "net_{{size}}_{{fast}}"\n{matrix}\n[[y]]\nname = "o"\n'
    )
    assert completed("modelbuild build //tools:net_2") == ["net_22_true", "net_22_false"]
    assert completed("modelbuild build //tools:") == ["net_1_true", "net_22_true", "net_22_false", "o"]


def test_names_of_a_named_matrix(workspace: Path, completed: Callable[[str], list[str]]) -> None:
    matrix = '[[matrix]]\nname = "sizes"\nsize = [1, 22]\n'
    target = '[[x]]\nname = "net_{size}"\nmatrix = "sizes"\n'
    workspace.joinpath("tools/BUILD.toml").write_text(target + matrix)
    assert completed("modelbuild build //tools:") == ["net_1", "net_22"]
    workspace.joinpath("tools/BUILD.toml").write_text(matrix)
    assert completed("modelbuild build //tools:") == []


def test_profiles(workspace: Path, completed: Callable[[str], list[str]]) -> None:
    workspace.joinpath("MODELBUILD.toml").write_text("[profile.ci]\njobs = 1\n[profile.cold]\n[profile.fast]\n")
    assert completed("modelbuild build --config c") == ["ci", "cold"]
    assert completed("modelbuild test //models:detector --config ") == ["ci", "cold", "fast"]
    workspace.joinpath("MODELBUILD.toml").write_text("[profile.ci\n")
    assert completed("modelbuild build --config c") == []


@pytest.mark.parametrize(
    ("line", "found", "not_found"),
    [("modelbuild build --de", "--device", "--jobs"), ("modelbuild cache g", "gc", "prune")],
)
def test_options_and_subcommands(completed: Callable[[str], list[str]], line: str, found: str, not_found: str) -> None:
    assert found in completed(line)
    assert not_found not in completed(line)


@pytest.mark.parametrize("words", ["", "modelbuild"])
@pytest.mark.parametrize("position", ["", "-1", "9" * 30, "x"])
def test_words_and_a_position_that_no_shell_sends(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, words: str, position: str
) -> None:
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", position)
    assert "plain,build\n" in Bash(cli, {}, "modelbuild", COMPLETE).complete()


def test_bash_itself(workspace: Path) -> None:
    """Run the script that click prints, in its shell."""
    script = """
        eval "$(_MODELBUILD_COMPLETE=bash_source modelbuild)"
        COMP_WORDS=(modelbuild build //models : det); COMP_CWORD=4; _modelbuild_completion modelbuild
        echo "${COMPREPLY[@]}"
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], env=os.environ | {"PATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["detector_model", "detector"]
