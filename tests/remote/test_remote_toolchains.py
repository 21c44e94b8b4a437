"""Remote workers get the packages of a toolchain with each action, unless they have it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modelbuild.toolchain.uv import find_uv
from tests.remote.test_remote_execution import ONLY_REMOTE, any_farm
from tests.script_rule import OUTPUT, SCRIPT, install
from tests.toolchain.conftest import index, tools
from tests.toolchain.test_runtime_beside_modelbuild import READS, runtime
from tests.wheels import Index, ToolchainWorkspace

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


def read_runtime(workspace: ToolchainWorkspace, site: Path) -> str:
    """Build a script that reads a runtime beside modelbuild; return what it read."""
    site.mkdir()
    install(site, "modelbuild_runtime", "1.0", runtime("first"))
    workspace.write({"a/s.py": READS.format(module="modelbuild_runtime_native")})
    workspace.edit("a/BUILD.toml", "srcs", 'requires = ["modelbuild-runtime"]\nsrcs')
    ended = workspace.build(SCRIPT, PYTHONPATH=str(site))
    assert ended.statuses == {"//a:s#script": "ran"}, ended.err
    assert place(workspace)
    return (workspace.root / OUTPUT).read_text()


def test_workers_get_the_runtime_beside_modelbuild(remote: ToolchainWorkspace, tmp_path: Path) -> None:
    assert read_runtime(remote, tmp_path / "site") == "['first', 'program']"


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


@pytest.fixture
def image(tmp_path: Path, index: Index) -> Path:
    """Return the Python of an environment with the packages of the lock, as an image of a worker contains it."""
    folder = tmp_path / "image"
    environment = {**os.environ, **index.environment}
    subprocess.run([find_uv(), "venv", "--quiet", "--python", sys.executable, folder], check=True, env=environment)
    install = [find_uv(), "pip", "install", "--quiet", "--python", folder / "bin/python", *index.pins]
    subprocess.run(install, check=True, env=environment)
    return folder / "bin/python"


@pytest.fixture(params=["casd", pytest.param("BuildGrid", marks=pytest.mark.exhaustive)])
def named(
    request: pytest.FixtureRequest,
    tools: ToolchainWorkspace,
    tmp_path: Path,
    image: Path,
    shared_casd: Any,
    build_grid: Any,
    mounts: Any,
    new_farm: Any,
) -> Iterator[ToolchainWorkspace]:
    """Return the workspace with workers that have its toolchain; their other Python doesn't exist."""
    home = image.parents[1]
    if request.param == "casd":
        farm = new_farm(home)
    else:
        farm = build_grid.Farm(tmp_path / "bots", [shared_casd.programs / "buildbox-run", *mounts(home)])
    settings = f'[remote]\nexecutor = "{farm.address}"\npython = "/no/python"\n{ONLY_REMOTE}'
    tools.add("MODELBUILD.toml", f'{settings}[remote.toolchains]\n"//:tools" = "{image}"\n')
    yield tools
    farm.kill()


def test_a_worker_that_has_the_toolchain_gets_none_of_its_files(named: ToolchainWorkspace, image: Path) -> None:
    named.write({"a/s.py": "import alpha, sys\nresult = [alpha.X, sys.prefix, alpha.__file__]\n"})
    ended = named.build(SCRIPT)
    assert ended.statuses == {"//a:s#script": "ran"}, ended.err
    assert place(named)
    x, prefix, file = eval((named.root / OUTPUT).read_text())
    assert (x, prefix) == (1, str(image.parents[1]))
    assert file.startswith(prefix)


def test_a_worker_that_has_the_toolchain_gets_the_runtime(named: ToolchainWorkspace, tmp_path: Path) -> None:
    assert read_runtime(named, tmp_path / "site") == "['first', 'program']"


def test_a_worker_whose_toolchain_is_another_one(named: ToolchainWorkspace) -> None:
    named.index.add("alpha", "2.0", {"alpha/__init__.py": "import beta\nX = 2\n"}, ["beta"])
    named.write({"tools.lock": named.index.lock})
    ended = named.run("build", SCRIPT)
    assert ended.code == 1
    assert "alpha 1.0" in ended.err
    assert "expected 2.0" in ended.err
