"""Output groups of a workspace's own rule, and the command that its package declares for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workspace_builder import Workspace

RULES = """
from modelbuild.api import Attrs, Command, Context, Files, Option, Output, OutputGroups, rule
from modelbuild.errors import BuildError

class WordAttrs(Attrs):
    text: str
    broken: bool = False

@rule(attrs=WordAttrs)
def word(ctx: Context[WordAttrs]):
    out = ctx.action("write", step="write", outputs=[Output("out", "word.txt")], params={"text": ctx.attrs.text})
    params = {"text": ctx.attrs.text[::-1], "broken": ctx.attrs.broken}
    back = ctx.action("reverse", step="write", outputs=[Output("out", "word.txt")], params=params)
    return Files((out["out"],)), OutputGroups({"reverse": (back["out"],)})

@rule(attrs=WordAttrs)
def plain(ctx: Context[WordAttrs]):
    return (Files(()),)

def show(label, files, options):
    if options["mark"] == "bad":
        raise BuildError(f"{label}: no such mark")
    yield f"{label} {files['word.txt'].decode() * options['times']}{options['mark']} {options['json']}"

reverse = Command(
    "reverse", help="Print words from their end.", about="TARGET is a word.", group=lambda options: "reverse",
    options=(Option("times", "How often.", 1, "N"), Option("mark", "At the end.")), show=show,
)
"""
STEP = """
def run(step):
    if step.params.get("broken"):
        raise ValueError("broken")
    step.outputs["out"].write_text(step.params["text"])
"""
BUILD = """
[[word]]
name = "a"
text = "abc"

[[word]]
name = "b"
text = "xyz"
broken = true

[[plain]]
name = "p"
text = ""
"""


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    files = {
        "MODELBUILD.toml": 'rules = ["//tools"]\n',
        "tools/__init__.py": "",
        "tools/words.py": RULES,
        "tools/steps/__init__.py": "",
        "tools/steps/write.py": STEP,
        "BUILD.toml": BUILD,
    }
    return Workspace(tmp_path_factory.mktemp("words"), files)


def out(words: Workspace, name: str) -> Path:
    return words.root / "modelbuild-out/default" / name


def test_a_group_is_built_instead_of_the_files_and_in_a_folder_of_its_own(words: Workspace) -> None:
    assert words.run("build", "//:a").code == 0
    ended = words.run("build", "//:a", "--output-groups=reverse")
    assert (ended.code, "1 ran" in ended.out + ended.err) == (0, True), ended.err
    assert out(words, "a~reverse/word.txt").read_text() == "cba"
    assert out(words, "a/word.txt").read_text() == "abc"
    assert words.run("build", "//:a", "--output-groups=reverse").out.splitlines()[-1].startswith("Nothing to do")


def test_several_groups_and_targets_without_them(words: Workspace) -> None:
    ended = words.run("build", "//:a", "//:p", "--output-groups=default,reverse", "--json")
    assert ended.code == 0, ended.err
    found = {each["label"]: each["outputs"] for each in ended.json["targets"]}
    assert found["//:a"] == [f"modelbuild-out/default/a{name}/word.txt" for name in ("", "~reverse")]


def test_a_failed_group_does_not_fail_the_target(words: Workspace) -> None:
    assert words.run("build", "//:b").code == 0
    ended = words.run("build", "//:b", "--output-groups=reverse")
    assert (ended.code, "//:b was not built: //:b#reverse failed" in ended.err) == (1, True)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("revers", "no output group 'revers' in //:a; did you mean 'reverse'?"),
        ("reverse,x", "no output group 'x' in //:a; groups: default, reverse"),
    ],
)
def test_an_unknown_group(words: Workspace, groups: str, message: str) -> None:
    ended = words.run("build", "//:a", f"--output-groups={groups}")
    assert (ended.code, ended.err) == (2, f"error: {message}\n")


def test_a_command_of_the_package(words: Workspace) -> None:
    assert words.run("reverse", "//:a", "--times=2", "--mark=!").out == "//:a cbacba! False\n"
    assert words.run("reverse", "//:a", "--json").out == "//:a cba True\n"
    assert words.run("build", "//:a", "--nobuild", "--output-groups=reverse").code == 0
    described = words.run("reverse", "--help").out
    assert "Print words from their end." in described
    assert "--times N" in described
    assert "  reverse " in words.run("--help").out


def test_a_command_reports_failures_and_errors(words: Workspace) -> None:
    ended = words.run("reverse", "//:a", "//:b")
    assert (ended.code, ended.out) == (1, "")
    assert "//:b was not built: //:b#reverse failed" in ended.err
    ended = words.run("reverse", "//:a", "--mark=bad")
    assert (ended.code, ended.err.splitlines()[-1]) == (1, "error: //:a: no such mark")
    ended = words.run("revers", "//:a")
    assert (ended.code, ended.err) == (2, "error: no command 'revers'; did you mean 'reverse'?\n")


def test_a_command_with_the_name_of_another_is_an_error(words: Workspace, tmp_path: Path) -> None:
    workspace = words.copy(tmp_path)
    workspace.edit("tools/words.py", '"reverse", help=', '"query", help=')
    for arguments in (("--help",), ("reverse", "//:a")):
        ended = workspace.run(*arguments)
        assert (ended.code, ended.err) == (
            2,
            "error: command 'query' of 'tools' exists already in modelbuild; rename it\n",
        )


def test_a_changed_attribute_reaches_the_actions_of_a_group(words: Workspace, tmp_path: Path) -> None:
    workspace = words.copy(tmp_path)
    workspace.build("//:a")
    workspace.edit("BUILD.toml", 'name = "a"\ntext = "abc"', 'name = "a"\ntext = "abd"')
    ended = workspace.run("build", "//:a", "--output-groups=reverse")
    assert (ended.code, out(workspace, "a~reverse/word.txt").read_text()) == (0, "dba")
