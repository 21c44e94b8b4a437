"""Steps run in a toolchain's Python, which the build makes, and their keys contain what the lock pins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.script_rule import OUTPUT, SCRIPT, install
from tests.toolchain.conftest import ALPHA
from tests.wheels import Index, ToolchainWorkspace
from tests.workspace_builder import Workspace


def output(tools: Workspace) -> str:
    return (tools.root / OUTPUT).read_text()


def environments(tools: Workspace) -> list[Path]:
    return sorted(path.parent for path in (tools.cache / "toolchains").glob("*/toolchain.json"))


def key(tools: Workspace) -> str:
    (node,) = tools.run("aquery", SCRIPT, "--output=json").json["nodes"]
    return str(node["key"])


def test_a_step_imports_packages_of_the_lock(tools: ToolchainWorkspace) -> None:
    tools.write({"a/s.py": "import alpha, sys\nresult = f'{alpha.X} {sys.prefix}'\n"})
    first = tools.run("build", SCRIPT)
    assert first.code == 0, first.err
    (environment,) = environments(tools)
    assert output(tools) == f"1 {environment}"
    assert "making //:tools: 3 packages of tools.lock for Python" in first.err
    again = tools.run("build", SCRIPT)
    assert "Nothing to do" in again.out
    assert "making" not in again.err


def test_packages_beside_modelbuild_do_not_exist_in_a_toolchain(tools: ToolchainWorkspace) -> None:
    tools.write({"a/s.py": "import click\nresult = 1\n"})
    ended = tools.run("build", SCRIPT)
    assert ended.code == 1
    assert "no package of tools.lock has a module click; add one to the lock of //:tools" in ended.err


def test_a_package_that_a_rule_needs_is_named_with_the_lock(tools: ToolchainWorkspace) -> None:
    tools.edit("a/BUILD.toml", "srcs", 'requires = ["click"]\nsrcs')
    ended = tools.run("build", SCRIPT)
    assert ended.code == 36
    expected = (
        "//a:s needs the package 'click', which tools.lock, the lock of //:tools, does not list; "
        "add it to the lock of //:tools"
    )

    assert ended.err.splitlines()[-1].endswith(expected)


def test_another_pin_reruns_what_imports_it_and_nothing_else(tools: ToolchainWorkspace) -> None:
    tools.add("a/BUILD.toml", '[[script]]\nname = "t"\nsrcs = ["t.py"]\n')
    tools.write({"a/t.py": "import gamma\nresult = gamma.Z\n"})
    assert tools.ran("//a:all") == {"//a:s#script", "//a:t#script"}
    before = tools.index.lock
    tools.index.add("beta", "2.0", {"beta.py": "Y = 2\n"})  # alpha requires it
    tools.write({"tools.lock": tools.index.lock})
    assert tools.ran("//a:all") == {"//a:s#script"}
    tools.index.add("gamma", "2.0", {"gamma.py": "Z = 2\n"})
    tools.write({"tools.lock": tools.index.lock})
    assert tools.ran("//a:all") == {"//a:t#script"}
    tools.write({"tools.lock": before})
    assert tools.ran("//a:all") == set()
    assert len(environments(tools)) == 3


@pytest.mark.exhaustive
def test_comments_order_and_other_packages_of_the_lock_are_in_no_key(tools: ToolchainWorkspace) -> None:
    tools.build(SCRIPT)
    lines = tools.index.lock.splitlines(keepends=True)
    tools.write({"tools.lock": "# A comment.\n" + "".join(reversed(lines)).replace(" --hash", " \\\n    --hash")})
    assert tools.ran(SCRIPT) == set()
    assert len(environments(tools)) == 1
    tools.index.add("delta", "1.0", {"delta.py": ""})
    tools.write({"tools.lock": tools.index.lock})
    assert tools.ran(SCRIPT) == set()
    assert len(environments(tools)) == 2


def test_the_same_packages_have_the_same_keys_beside_modelbuild_and_in_a_toolchain(
    tools: ToolchainWorkspace, tmp_path: Path
) -> None:
    """So a workspace that begins to use a toolchain with the same versions rebuilds nothing."""
    site = tmp_path / "site"
    site.mkdir()
    install(site, "alpha", "1.0", ALPHA, ("beta",))
    install(site, "beta", "1.0", {"beta.py": "Y = 1\n"})
    tools.build(SCRIPT)
    statuses = tools.build(SCRIPT, "--toolchain=installed", PYTHONPATH=str(site)).statuses
    assert statuses == {"//a:s#script": "cached"}


@pytest.mark.exhaustive
def test_workspaces_share_an_environment(tools: ToolchainWorkspace, tmp_path: Path) -> None:
    tools.build(SCRIPT)
    other = ToolchainWorkspace(tmp_path / "other", cache=tools.cache)
    other.index = tools.index
    other.copy_in(tools.root)
    ended = other.run("build", SCRIPT)
    assert (ended.code, "making" in ended.err) == (0, False)
    assert len(environments(tools)) == 1


def test_the_toolchain_of_the_command_line(tools: ToolchainWorkspace) -> None:
    tools.index.add("alpha", "2.0", {"alpha/__init__.py": "X = 2\n"})
    tools.write({"new.lock": tools.index.lock})
    tools.add("BUILD.toml", '[[python_toolchain]]\nname = "new"\nlock = "new.lock"\n')
    tools.build(SCRIPT)
    assert output(tools) == "1"
    tools.build(SCRIPT, "--toolchain=//:new")
    assert output(tools) == "2"
    tools.build(SCRIPT)
    assert output(tools) == "1"
    assert tools.run("build", SCRIPT, "--nobuild", "--toolchain=//:new").code == 0


def test_files_are_links_and_folders_are_read_only(tools: ToolchainWorkspace) -> None:
    tools.build(SCRIPT)
    (environment,) = environments(tools)
    (file,) = environment.glob("lib/*/site-packages/beta.py")
    assert file.stat().st_nlink > 1, "expected a link to the file in uv's cache"
    folders = [path for path in (environment, *environment.rglob("*")) if path.is_dir() and not path.is_symlink()]
    assert [folder for folder in folders if folder.stat().st_mode & 0o222] == []
    assert list(environment.glob("lib/*/site-packages/__pycache__/beta.*.pyc"))


def test_a_step_cannot_write_to_its_toolchain(tools: ToolchainWorkspace) -> None:
    tools.write({"a/s.py": "import alpha\nopen(alpha.__file__, 'a').write('X = 2')\nresult = 1\n"})
    ended = tools.run("build", SCRIPT)
    assert ended.code == 1
    assert "an action may write only its outputs" in ended.err


@pytest.mark.parametrize(
    "wanted",
    [pytest.param(f"3.{sys.version_info.minor}", marks=pytest.mark.exhaustive), sys.executable],
    ids=["version", "program"],
)
def test_the_python_of_a_toolchain(tools: ToolchainWorkspace, wanted: str) -> None:
    tools.write({"a/s.py": "import alpha, sys\nresult = sys.version_info[:2]\n"})
    tools.add("BUILD.toml", f"python = {json.dumps(wanted)}\n")
    tools.build(SCRIPT)
    assert output(tools) == str(sys.version_info[:2])


def test_a_lock_that_is_edited_between_two_builds_is_read_again(tools: ToolchainWorkspace) -> None:
    tools.build(SCRIPT)
    tools.write({"a/s.py": "import alpha\nresult = alpha.X + 1\n"})
    assert tools.ran(SCRIPT) == {"//a:s#script"}  # only a source changed
    tools.index.add("alpha", "1.1", {"alpha/__init__.py": "X = 5\n"})
    tools.write({"tools.lock": tools.index.lock})
    tools.build(SCRIPT)
    assert output(tools) == "6"


@pytest.mark.exhaustive
def test_pythonpath_is_no_part_of_a_toolchain(tools: ToolchainWorkspace, tmp_path: Path) -> None:
    (tmp_path / "path").mkdir()
    (tmp_path / "path/alpha.py").write_text("X = 7\n")
    before = tools.build(SCRIPT)
    assert before.code == 0
    tools.add("a/BUILD.toml", "#\n")
    assert tools.ran(SCRIPT, PYTHONPATH=str(tmp_path / "path")) == set()


@pytest.mark.exhaustive
def test_explain_names_the_pin(tools: ToolchainWorkspace) -> None:
    tools.build(SCRIPT)
    tools.index.add("beta", "2.0", {"beta.py": "Y = 2\n"})
    tools.write({"tools.lock": tools.index.lock})
    tools.build(SCRIPT)
    assert "beta" in tools.run("explain", SCRIPT).out


def test_uv_may_be_missing(tools: ToolchainWorkspace, index: Index, tmp_path: Path) -> None:
    """Then one line says how to get it. An environment that exists needs none."""
    hidden = f"""
import os, sys
from modelbuild.toolchain import uv
uv.sys = type(sys)("sys"); uv.sys.prefix = {str(tmp_path)!r}
sys.modules["uv"] = None
os.environ["PATH"] = {str(tmp_path)!r}
from modelbuild.cli import invoke
sys.exit(invoke(sys.argv[1:]))
"""
    program = (sys.executable, "-c", hidden)
    ended = tools.run("build", SCRIPT, program=program)
    assert ended.code == 36
    expected = (
        "toolchains are made by uv, which is not installed; install uv beside modelbuild with pip, or put it on PATH"
    )
    assert ended.err.splitlines()[-1].endswith(expected)
    tools.build(SCRIPT)
    os.utime(tools.root / "a/BUILD.toml")
    tools.add("a/BUILD.toml", "#\n")
    assert tools.run("build", SCRIPT, program=program).code == 0


def test_a_toolchain_is_whole_after_its_use(tools: ToolchainWorkspace) -> None:
    """A wheel contains byte code, which Python replaces, and a file that another wheel also has."""
    tag = sys.implementation.cache_tag
    byte_code = {f"alpha/__pycache__/__init__.{tag}.pyc": "stale", "alpha/__pycache__/other.pyc": "of no module"}
    files = {"alpha/__init__.py": "import beta\nX = 1\n", **byte_code, "shared/a.py": "1\n"}
    tools.index.add("alpha", "1.0", files, ["beta"])
    tools.index.add("gamma", "1.0", {"gamma.py": "Z = 1\n", "shared/a.py": "22\n"})
    tools.write({"tools.lock": tools.index.lock})
    assert len(tools.ran(SCRIPT)) > 0
    (environment,) = environments(tools)
    (source,) = environment.glob("lib/*/site-packages/alpha/__init__.py")
    os.utime(source, (1, 1))
    subprocess.run([environment / "bin/python", "-c", "import alpha; alpha"], check=True)
    for _ in range(2):
        verified = tools.run("cache", "verify")
        assert verified.code == 0, verified.out
    assert source.exists()
    assert tools.ran(SCRIPT) == set()
