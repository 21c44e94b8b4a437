"""requirements-cpu.lock: everything for XNNPACK except torch, without packages for CUDA."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.installation import add_compiled, bare_environment
from tests.packaging.test_extras import models
from tests.packaging.test_lock import pins
from tests.workspace_builder import Workspace

pytestmark = pytest.mark.xdist_group("distribution")

CUDA = re.compile(r"torch|triton|cuda-.*|nvidia-.*")
UNUSED = frozenset({"triton", "cuda-bindings", "cuda-pathfinder", "nvidia-cusolver", "nvidia-nvtx"})
"""Requirements of PyPI's torch that it starts without. It is linked with the libraries of the other ones."""


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_it_is_the_lock_without_cuda(repository: Path, python: str) -> None:
    every, cpu = (
        pins((repository / f"{name}.lock").read_text(), python) for name in ("requirements", "requirements-cpu")
    )
    assert cpu.items() <= every.items()
    assert [name for name in cpu if CUDA.fullmatch(name)] == []
    extras = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = {
        canonicalize_name(Requirement(line).name) for name in ("models", "test", "remote") for line in extras[name]
    }
    assert wanted - {"modelbuild-runtime", "torch"} <= cpu.keys()


@pytest.mark.exhaustive
def test_programs_for_xnnpack_build_without_the_packages_for_cuda(repository: Path, dist: Path, tmp_path: Path) -> None:
    """With PyPI's torch and the libraries that it is linked with, in place of torch's build for the CPU."""
    programs = bare_environment(tmp_path / "venv", "models", sorted(dist.glob("*.whl")), without=UNUSED)
    add_compiled(programs, repository)
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    installed = {canonicalize_name(path.name.split("-")[0]) for path in site.glob("*.dist-info")}
    locked = pins((repository / "requirements-cpu.lock").read_text(), f"{sys.version_info[0]}.{sys.version_info[1]}")
    others = {name for name in installed if not CUDA.fullmatch(name)} - {"modelbuild", "modelbuild-runtime"}
    assert others <= locked.keys()
    workspace = Workspace(tmp_path / "work", {"MODELBUILD.toml": ""})
    workspace.program = [str(programs / "modelbuild")]
    models(workspace)
