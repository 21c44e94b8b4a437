"""modelbuild with nothing beside it but its own requirements: a toolchain has everything else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modelbuild.toolchain.uv import find_uv
from tests.packaging.installation import bare_environment, run
from tests.packaging.test_distribution import WHEEL
from tests.script_rule import OUTPUT, SCRIPT
from tests.wheels import ToolchainWorkspace
from tests.workspace_builder import Workspace

pytestmark = pytest.mark.xdist_group("distribution")

REQUIRED = {"click", "networkx", "packaging", "pydantic", "rich", "tomli", "uv"}
THEIRS = {"annotated-types", "markdown-it-py", "mdurl", "pydantic-core", "pygments", "typing-extensions"}
THEIRS |= {"typing-inspection"}

NAMES = """
from importlib.metadata import distributions
from pathlib import Path
from modelbuild.analysis.rules import load_rules
print(*sorted(each.name.lower().replace("_", "-") for each in distributions()))
print(load_rules(Path("."), ()).packages["modelbuild_runtime"])
"""


@pytest.fixture
def programs(dist: Path, tmp_path: Path) -> Path:
    return bare_environment(tmp_path / "venv", "", [dist / WHEEL])


@pytest.fixture
def path() -> str:
    """Return PATH with uv, whose program `bare_environment` does not install."""
    return os.pathsep.join((str(Path(find_uv()).parent), os.environ["PATH"]))


def test_a_step_runs_with_the_packages_of_a_lock(programs: Path, tools: ToolchainWorkspace, path: str) -> None:
    names, library = run(programs / "python", "-c", NAMES, cwd=programs).splitlines()
    assert set(names.split()) == {"modelbuild", *REQUIRED, *THEIRS}
    assert library.endswith("/site-packages/modelbuild/library/modelbuild_runtime")
    tools.program = [str(programs / "modelbuild")]
    ended = tools.run("build", SCRIPT, PATH=path)
    assert ended.code == 0, ended.err
    assert (tools.root / OUTPUT).read_text() == "1"


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_detector_is_built_and_run(programs: Path, repository: Path, tmp_path: Path, path: str) -> None:
    """By the commands of `make demo`, with the packages of @modelbuild//toolchains:xnnpack. Needs an index, 10 GB of
    disk, and minutes."""
    workspace = Workspace(tmp_path / "work")
    workspace.copy_in(repository / "examples")
    workspace.edit("MODELBUILD.toml", "[build]\n", '[build]\ntoolchain = "@modelbuild//toolchains:xnnpack"\n')
    workspace.program = [str(programs / "modelbuild")]
    environment = {"PATH": path, "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(tmp_path / "uv"))}
    built = workspace.run("build", "//models:detector", **environment)
    assert built.code == 0, built.err
    outputs = tmp_path / "outputs"
    options = ("--input", "image=//third_party:astronaut", "--output-dir", str(outputs))
    ran = workspace.run("run", "//models:detector", *options, **environment)
    assert ran.code == 0, ran.err
    assert "output scores: float32[1]" in ran.out  # it finds the face
    tested = workspace.test("//models:detector_test", **environment)
    assert [each["status"] for each in tested.values()] == ["passed"]


NET = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)
    def forward(self, x):
        return torch.nn.functional.gelu(self.linear(x))
"""
CUDA = """
[[torch_model]]
name = "net"
entry = "net.py:Net"
seed = 0
inputs = [{ name = "x", shape = [4, 8], dtype = "float32" }]
[[backend_stack]]
name = "cuda"
backends = [{ type = "cuda", min_block_size = 1 }, "portable"]
toolchain = "@modelbuild//toolchains:cuda"
[[device_target]]
name = "rtx"
arch = "x86_64"
compute_capabilities = ["8.6"]
[[device_target]]
name = "orin"
arch = "aarch64"
compute_capabilities = ["8.7"]
[[pte_program]]
name = "{device}_program"
matrix.device = ["rtx", "orin"]
model = ":net"
stack = ":cuda"
device = ":{device}"
"""


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_programs_for_cuda_are_built_for_two_architectures(programs: Path, tmp_path: Path, path: str) -> None:
    """With the compilers, headers and Triton of @modelbuild//toolchains:cuda alone. Needs an index, 14 GB of disk, and
    minutes."""
    workspace = Workspace(tmp_path / "work", {"MODELBUILD.toml": "", "BUILD.toml": CUDA, "net.py": NET})
    workspace.program = [str(programs / "modelbuild")]
    environment = {"PATH": path, "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(tmp_path / "uv"))}
    built = workspace.run("build", "//:rtx_program", "//:orin_program", **environment)
    assert built.code == 0, built.err
    for device in ("rtx", "orin"):
        assert (workspace.root / f"modelbuild-out/{device}/{device}_program/{device}_program.pte").stat().st_size > 1000
