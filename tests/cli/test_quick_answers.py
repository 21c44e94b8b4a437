"""Answers without click (version, help, completion) equal click's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from modelbuild import __version__
from modelbuild.cli.group import cli
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.quick.complete import complete

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


def completed(line: str) -> list[str]:
    """Return the text that bash would insert at the end of a line; bash splits words at colons as well."""
    words = line.replace(":", " : ").split(" ")
    words = [word for word in words[:-1] if word] + words[-1:]
    answer = complete("bash_complete", "\n".join(words), str(len(words) - 1))
    assert answer is not None
    return [row.removeprefix("plain,") for row in answer.splitlines()]


def test_the_help_is_clicks() -> None:
    expected = cli.get_help(cli.make_context("modelbuild", [], resilient_parsing=True, terminal_width=80))
    for option in ("--help", "-h"):
        assert run(option).stdout == expected + "\n"


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "importtime", "-m", "modelbuild", *arguments]
    return subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=True)


@pytest.mark.parametrize(
    ("arguments", "variables", "expected"),
    [
        (["--version"], {}, f"modelbuild {__version__}\n"),
        (["-h"], {}, "Usage: modelbuild [OPTIONS]"),
        (
            [],
            {"_MODELBUILD_COMPLETE": "bash_complete", "COMP_WORDS": "modelbuild bu", "COMP_CWORD": "1"},
            "plain,build\n",
        ),
    ],
)
def test_nothing_is_imported_for_it(arguments: list[str], variables: dict[str, str], expected: str) -> None:
    done = run(*arguments, **variables)
    assert done.stdout.startswith(expected)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "modelbuild.cli.quick.quick_path" in imported
    assert imported.isdisjoint({"click", "dataclasses", "pydantic", "tomli", "modelbuild.cli.command_line"})


def test_commands() -> None:
    assert completed("modelbuild ") == sorted(COMMANDS)
    assert completed("modelbuild c") == ["cache", "check", "ci", "clean", "compare", "cquery"]


def test_commands_are_clicks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_WORDS", "modelbuild c")
    monkeypatch.setenv("COMP_CWORD", "1")
    theirs = BashComplete(cli, {}, "modelbuild", "_MODELBUILD_COMPLETE").complete()
    assert complete("bash_complete", "modelbuild c", "1") == theirs + "\n"


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
def test_labels(workspace: Path, line: str, expected: list[str]) -> None:
    assert completed(line) == expected


def test_names_of_a_matrix(workspace: Path) -> None:
    matrix = "matrix = { size = [1, 22], fast = [true, false], exclude = [{ size = 1, fast = false }] }"
    workspace.joinpath("tools/BUILD.toml").write_text(
        f'[[x]]\nname = "net_{{size}}_{{fast}}"\n{matrix}\n[[y]]\nname = "o"\n'
    )
    assert completed("modelbuild build //tools:net_2") == ["net_22_true", "net_22_false"]
    assert completed("modelbuild build //tools:") == ["net_1_true", "net_22_true", "net_22_false", "o"]


def test_profiles(workspace: Path) -> None:
    workspace.joinpath("MODELBUILD.toml").write_text("[profile.ci]\njobs = 1\n[profile.cold]\n[profile.fast]\n")
    assert completed("modelbuild build --config c") == ["ci", "cold"]
    assert completed("modelbuild test //models:detector --config ") == ["ci", "cold", "fast"]
    workspace.joinpath("MODELBUILD.toml").write_text("[profile.ci\n")
    assert completed("modelbuild build --config c") == []


PROGRAM = """
[[torch_model]]
name = "model"
entry = "net.py:Net"
srcs = ["net.py"]
inputs = [{ name = "image", shape = [1], dtype = "float32" }, { name = "index", shape = [1], dtype = "int64" }]
[[backend_stack]]
name = "stack"
backends = [{ type = "portable" }]
[[pte_program]]
name = "program"
model = ":model"
stack = ":stack"
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("modelbuild run //nets:program --input ", ["image=", "index="]),
        ("modelbuild run nets:program --repeat 3 --input in", ["index="]),
        ("modelbuild -C nets run --quiet :program --input image=x.npy --input ", ["index="]),
        ("modelbuild run --input ", []),
        ("modelbuild run //nets:nothing --input ", []),
        ("modelbuild run //models:detector --input ", []),
    ],
)
def test_inputs_of_a_program(workspace: Path, line: str, expected: list[str]) -> None:
    (workspace / "nets").mkdir()
    (workspace / "nets/BUILD.toml").write_text(PROGRAM)
    (workspace / "nets/net.py").touch()
    assert completed(line) == expected


def test_zsh_and_fish(workspace: Path) -> None:
    """They complete whole labels, and zsh shows the purpose of commands."""
    line = "modelbuild build //models:classifier_"
    assert complete("zsh_complete", line, "2") == "plain\n//models:classifier_\n_\n"
    assert complete("fish_complete", line, "//models:classifier_") == "plain,//models:classifier_\n"
    assert complete("zsh_complete", "modelbuild vers", "1") == f"plain\nversion\n{COMMANDS['version']}\n"


@pytest.mark.parametrize("line", ["modelbuild build --de", "modelbuild build --jobs ", "modelbuild cache g"])
def test_options_and_subcommands_are_left_to_click(workspace: Path, line: str) -> None:
    words = line.split(" ")
    assert complete("bash_complete", line, str(len(words) - 1)) is None
    variables = {"_MODELBUILD_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, "-m", "modelbuild"], env=os.environ | variables, capture_output=True, text=True, check=True
    )
    assert ("plain,--device" in done.stdout) == ("--de" in line)


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
