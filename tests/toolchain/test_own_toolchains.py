"""A toolchain that a target names, or the stack or program that it builds with."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from modelbuild.analysis.open import open_analyzer
from modelbuild.labels import Label
from modelbuild.workspace.workspace import load_workspace
from tests.script_rule import OUTPUT, SCRIPT
from tests.toolchain.conftest import ALPHA
from tests.wheels import TOOLCHAIN, ToolchainWorkspace

NEW = '[[python_toolchain]]\nname = "new"\nlock = "new.lock"\n'
TWO = """
[[script]]
name = "s_{tools}"
srcs = ["s.py"]
toolchain = "//:{tools}"
matrix.tools = ["tools", "new"]
"""


@pytest.fixture
def two(tools: ToolchainWorkspace) -> ToolchainWorkspace:
    """Return a workspace with a second toolchain, //:new, with another release of `alpha`."""
    tools.index.add("alpha", "2.0", {**ALPHA, "alpha/__init__.py": "import beta\nX = 2\n"}, ["beta"])
    tools.write({"new.lock": tools.index.lock})
    tools.write({"BUILD.toml": 'package.default_visibility = ["//visibility:public"]\n' + TOOLCHAIN + NEW})
    return tools


def output(workspace: ToolchainWorkspace, name: str) -> str:
    return (workspace.root / OUTPUT).parents[1].joinpath(name, "out.txt").read_text()


def test_a_matrix_over_toolchains(two: ToolchainWorkspace) -> None:
    two.write({"a/BUILD.toml": TWO})
    ended = two.run("build", "//a:all", "--json")
    assert ended.code == 0, ended.err
    assert (output(two, "s_tools"), output(two, "s_new")) == ("1", "2")
    assert ended.statuses == {"//a:s_tools#script": "ran", "//a:s_new#script": "ran"}
    two.add("a/BUILD.toml", "#\n")
    assert two.ran("//a:all") == set()


def test_the_toolchain_is_in_the_key_by_its_packages(two: ToolchainWorkspace) -> None:
    """Another toolchain with the same packages gives the same keys; one with others does not."""
    two.build(SCRIPT)
    two.write({"same.lock": (two.root / "tools.lock").read_text()})
    two.add("BUILD.toml", NEW.replace("new", "same"))
    two.add("a/BUILD.toml", 'toolchain = "//:same"\n')
    assert two.ran(SCRIPT) == set()
    two.write({"a/BUILD.toml": (two.root / "a/BUILD.toml").read_text().replace("//:same", "//:new")})
    assert two.ran(SCRIPT) == {"//a:s#script"}
    assert "alpha" in two.run("explain", SCRIPT).out


def test_a_lock_of_a_targets_own_toolchain_is_edited(two: ToolchainWorkspace) -> None:
    two.write({"a/BUILD.toml": TWO})
    assert two.run("build", "//a:all").code == 0
    two.index.add("beta", "3.0", {"beta.py": "Y = 3\n"})
    two.write({"new.lock": two.index.lock})
    assert two.ran("//a:all") == {"//a:s_new#script"}


def test_dependencies_are_built_in_the_toolchain(two: ToolchainWorkspace) -> None:
    two.write(
        {
            "b/BUILD.toml": '[[script]]\nname = "top"\nsrcs = ["top.py", "//a:s"]\ntoolchain = "//:new"\n',
            "b/top.py": "import glob\nresult = open(glob.glob('.inputs/*/out.txt')[0]).read() + '!'\n",
            "a/BUILD.toml": 'package.default_visibility = ["//visibility:public"]\n'
            + (two.root / "a/BUILD.toml").read_text(),
        }
    )
    ended = two.run("build", "//...", "--json")
    assert ended.code == 0, ended.err
    assert set(ended.statuses) == {"//a:s#script", "//a:s (//:new)#script", "//b:top#script"}
    assert (two.root / "modelbuild-out/default/b/top/out.txt").read_text() == "2!"
    assert (two.root / OUTPUT).read_text() == "1"


def test_the_command_line_stands_in_for_all(two: ToolchainWorkspace) -> None:
    two.write({"a/BUILD.toml": TWO})
    ended = two.run("build", "//a:all", "--toolchain=//:new", "--json")
    assert ended.code == 0, ended.err
    assert (output(two, "s_tools"), output(two, "s_new")) == ("2", "2")


def test_the_python_of_modelbuild(two: ToolchainWorkspace) -> None:
    two.add("a/BUILD.toml", 'toolchain = "installed"\n')
    two.write({"a/s.py": "import sys\nresult = sys.prefix\n"})
    two.build(SCRIPT)
    assert (two.root / OUTPUT).read_text() == sys.prefix


def test_fetch_brings_it(two: ToolchainWorkspace) -> None:
    two.write({"a/BUILD.toml": TWO})
    ended = two.run("fetch", "//a:s_new")
    assert ended.code == 0, ended.err
    assert "made //:new" in ended.err


def test_queries_know_it_and_make_nothing(two: ToolchainWorkspace) -> None:
    two.write({"a/BUILD.toml": TWO})
    assert "//:new" in two.run("query", "deps(//a:s_new)").out.split()
    assert two.run("query", "rdeps(//..., //:new)").out.split() == ["//:new", "//a:s_new"]
    assert two.run("query", "labels(toolchain, //a:s_new)").out.split() == ["//:new"]
    assert two.run("cquery", "labels(toolchain, //a:s_new)").out.split() == ["//:new"]
    assert 'toolchain = "//:new"' in two.run("query", "//a:s_new", "--output=build").out
    assert not (two.cache / "toolchains").exists()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1", "a/BUILD.toml:4:1: 'toolchain': expected a label, or 'installed', got 1"),
        (
            "'//a b'",
            "a/BUILD.toml:4:1: 'toolchain': '//a b' is not a label; expected //package:name, //package or :name",
        ),
        ("'//:nev'", "a/BUILD.toml:4:1: no target 'nev' in //; did you mean 'new'?"),
        ("':other'", "a/BUILD.toml:4:1: //a:other is a script, not a toolchain; expected a target of python_toolchain"),
        ("':s'", "a/BUILD.toml:4:1: dependency cycle: //a:s -> //a:s"),
        ("'//hidden:tools'", "a/BUILD.toml:4:1: //hidden:tools is not visible from //a"),
    ],
)
def test_bad_values(two: ToolchainWorkspace, written: str, expected: str) -> None:
    other = '[[script]]\nname = "other"\nsrcs = ["s.py"]\n'
    two.write(
        {
            "a/BUILD.toml": f'[[script]]\nname = "s"\nsrcs = ["s.py"]\ntoolchain = {written}\n{other}',
            "hidden/BUILD.toml": '[[python_toolchain]]\nname = "tools"\nlock = "tools.lock"\n',
            "hidden/tools.lock": two.index.lock,
        }
    )
    ended = two.run("build", "//a:s")
    assert ended.code == 3
    assert expected in ended.err


MODELS = """
[[python_toolchain]]
name = "{tools}"
lock = "tools.lock"
matrix.tools = ["base", "new", "old"]

[[torch_model]]
name = "net"
entry = "net.py:Net"
inputs = [{ name = "x", shape = [2], dtype = "float32" }]
{model}

[[backend_stack]]
name = "stack"
backends = ["portable"]
{stack}

[[pte_program]]
name = "program"
model = ":net"
stack = ":stack"
{program}

[[pte_test]]
name = "test"
program = ":program"
model = ":net"
cases = [{ name = "drawn", generator = { seed = 1 } }]
{test}

[[runtime_bundle]]
name = "bundle"
program = ":program"
runtime = { archive = "net.py" }
device = ":board"

[[device_target]]
name = "board"
arch = "x86_64"
"""


TABLES = (("model", ":net"), ("stack", ":stack"))
"""Attributes that may be tables by method."""


@pytest.mark.parametrize("tables", [False, True])
@pytest.mark.parametrize(
    ("own", "asked", "expected"),
    [
        ({}, "test", "base"),
        ({"stack": "new"}, "program", "new"),
        ({"stack": "new"}, "test", "new"),
        ({"stack": "new"}, "bundle", "new"),
        ({"program": "new", "stack": "old"}, "test", "new"),
        ({"program": "base", "stack": "old"}, "program", "base"),
        ({"model": "new"}, "program", "new"),
        ({"model": "old", "program": "new"}, "program", "new"),
        ({"test": "new"}, "test", "new"),
        ({"test": "base", "stack": "new"}, "test", "base"),
    ],
)
def test_the_toolchain_of_a_stack_a_program_and_its_test(
    tmp_path: Path, own: dict[str, str], asked: str, expected: str, tables: bool
) -> None:
    """A program and everything that it is built from are in one toolchain, whichever names it."""
    text = MODELS
    for attribute, label in TABLES if tables else ():
        text = text.replace(f'{attribute} = "{label}"', f'{attribute} = {{ encode = "{label}" }}')
    for name in ("model", "stack", "program", "test"):
        text = text.replace(f"{{{name}}}", f'toolchain = ":{own[name]}"' if name in own else "")
    (tmp_path / "MODELBUILD.toml").write_text('[build]\ntoolchain = "//:base"\n')
    (tmp_path / "BUILD.toml").write_text(text)
    (tmp_path / "net.py").touch()
    (tmp_path / "tools.lock").touch()
    analyzer = open_analyzer(load_workspace(tmp_path))
    assert analyzer.analyze(Label("", asked)).toolchain == f"//:{expected}"
    found = {node.label.name: each.toolchain for node, each in analyzer.targets.items()}
    assert found["net"] == found["program"] == f"//:{expected}"
    named = own.get("program") or own.get("stack") or own.get("model") or "base"
    (program,) = [node for node in analyzer.targets if node.label.name == "program"]
    assert program.configuration.toolchain == ("" if named == expected else f"//:{expected}")
