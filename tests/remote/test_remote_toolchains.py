"""Remote workers get the packages of a toolchain with each action."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.remote.test_remote_execution import ONLY_REMOTE, any_farm
from tests.script_rule import OUTPUT, SCRIPT
from tests.toolchain.conftest import index, tools
from tests.wheels import ToolchainWorkspace

__all__ = ["any_farm", "index", "tools"]

SEES = """
import alpha, importlib.util, sys
named = {name: importlib.util.find_spec(name) is not None for name in ("alpha", "beta", "gamma", "click")}
result = [alpha.X, named, alpha.__file__.startswith(sys.prefix)]
"""


@pytest.fixture
def remote(tools: ToolchainWorkspace, any_farm: Any) -> ToolchainWorkspace:
    """Return the workspace with workers that have neither its packages nor modelbuild's."""
    tools.add(
        "MODELBUILD.toml", f'[remote]\nexecutor = "{any_farm.address}"\npython = "{sys.executable}"\n{ONLY_REMOTE}'
    )
    return tools


def place(workspace: ToolchainWorkspace) -> str:
    (told,) = json.loads(workspace.run("explain", SCRIPT, "--json").out)["actions"]
    return str(told["place"]["worker"])


def test_workers_get_the_packages_of_the_key(remote: ToolchainWorkspace) -> None:
    """They see those and no others: neither the rest of the lock, nor what is beside the worker's Python."""
    remote.write({"a/s.py": SEES})
    ended = remote.build(SCRIPT)
    assert ended.statuses == {"//a:s#script": "ran"}, ended.err
    assert place(remote)
    x, named, local = eval((remote.root / OUTPUT).read_text())
    assert (x, local) == (1, False)
    assert named == {"alpha": True, "beta": True, "gamma": False, "click": False}


def test_another_release(remote: ToolchainWorkspace, tmp_path: Path) -> None:
    remote.build(SCRIPT)
    assert (remote.root / OUTPUT).read_text() == "1"
    remote.index.add("alpha", "2.0", {"alpha/__init__.py": "import beta\nX = 2\n"}, ["beta"])
    remote.write({"tools.lock": remote.index.lock})
    assert remote.ran(SCRIPT) == {"//a:s#script"}
    assert (remote.root / OUTPUT).read_text() == "2"
    here = ToolchainWorkspace(tmp_path / "here", cache=tmp_path / "own")
    here.index = remote.index
    here.copy_in(remote.root)
    assert here.build(SCRIPT, "--strategy=*=local").statuses == {"//a:s#script": "ran"}
    assert (here.root / OUTPUT).read_text() == "2"


def test_a_worker_with_another_python(remote: ToolchainWorkspace, tmp_path: Path) -> None:
    other = tmp_path / "python"
    text = (remote.root / "MODELBUILD.toml").read_text()
    remote.write({"MODELBUILD.toml": text.replace(sys.executable, str(other))})
    ended = remote.run("build", SCRIPT)
    assert ended.code == 1
    assert "remote executor" in ended.err
