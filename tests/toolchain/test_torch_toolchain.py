"""A program that is built, tested and run with the torch of a lock, which is not the one beside modelbuild."""

from __future__ import annotations

import json
import os
import re
import subprocess
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import pytest

from modelbuild.toolchain.uv import find_uv
from tests.packaging.installation import bare_environment
from tests.wheels import TOOLCHAIN
from tests.workspace_builder import Workspace

BUILD = """
[[torch_model]]
name = "net"
entry = "net.py:Net"
srcs = ["net.py"]
weights = "net.safetensors"
inputs = [{ name = "x", shape = [2, 8], dtype = "float32", range = [-1, 1] }]
[[backend_stack]]
name = "xnnpack"
backends = [{ type = "xnnpack" }, { type = "portable" }]
[[pte_program]]
name = "program"
model = ":net"
stack = ":xnnpack"
[[pte_test]]
name = "program_test"
program = ":program"
model = ":net"
inputs = [{ name = "drawn", generator = { seed = 1 } }]
"""
NET = "import torch\nclass Net(torch.nn.Linear):\n    def __init__(self):\n        super().__init__(8, 4)\n"


pytestmark = pytest.mark.xdist_group("distribution")


@pytest.fixture
def torch_wheel() -> Path:
    """Return a wheel of torch for the CPU, in a folder where pip finds it."""
    folders = [Path(word) for word in os.environ.get("PIP_FIND_LINKS", "").split() if word.startswith("/")]
    found = [path for folder in folders for path in folder.glob("torch-*+cpu-*.whl")]
    if not found:
        pytest.skip("not run: needs a wheel of torch for the CPU in a folder that PIP_FIND_LINKS names")
    return found[0]


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_program_of_a_locked_torch(repository: Path, dist: Path, tmp_path: Path, torch_wheel: Path) -> None:
    """With nothing beside modelbuild but its own requirements. Needs an index, 2 GB of disk, and minutes. Another pin
    reruns what can import it: safetensors, the export."""
    from numpy import zeros
    from safetensors.numpy import save_file

    release = torch_wheel.name.split("-")[1]
    assert release != version("torch")
    torch = f"torch=={release} --hash=sha256:{sha256(torch_wheel.read_bytes()).hexdigest()}\n"
    lock = torch + (repository / "requirements-cpu.lock").read_text()
    workspace = Workspace(tmp_path / "work")
    workspace.program = [str(bare_environment(tmp_path / "venv", "", sorted(dist.glob("*.whl"))) / "modelbuild")]
    sources = 'from_source = ["antlr4-python3-runtime"]\n'
    settings = {"MODELBUILD.toml": '[build]\ntoolchain = "//:tools"\n', "BUILD.toml": TOOLCHAIN + sources + BUILD}
    workspace.write({**settings, "net.py": NET, "tools.lock": lock})
    save_file({"weight": zeros((4, 8), "float32"), "bias": zeros(4, "float32")}, workspace.root / "net.safetensors")
    path = os.pathsep.join((str(Path(find_uv()).parent), os.environ["PATH"]))
    environment = {"UV_FIND_LINKS": str(torch_wheel.parent), "UV_CACHE_DIR": str(tmp_path / "uv"), "PATH": path}
    ran = workspace.ran("//:program", **environment)
    assert {name.partition("#")[2].partition(":")[0] for name in ran} == {"export", "partition", "compile", "emit"}
    (tested,) = workspace.test("//...", **environment).values()
    assert tested["status"] == "passed"
    (workspace.root / "x.json").write_text(json.dumps([[0.5] * 8] * 2))
    run = workspace.run("run", "//:program", "--input", "x=x.json", **environment)
    assert run.code == 0, run.err
    assert "output" in run.out
    (described,) = workspace.run("aquery", "//:net", "--output=json", **environment).json["nodes"]
    assert described["tools"]["torch"].startswith(f"{release} ")

    pin = re.search(r"^safetensors==.*?\n(?=\S)", lock, re.MULTILINE | re.DOTALL)
    assert pin is not None
    workspace.write({"tools.lock": lock.replace(pin[0], _pin("safetensors==0.5.3"))})
    assert workspace.ran("//:program", **environment) == {"//:net#export"}


def _compiled(requirements: str, *options: str) -> str:
    command = [find_uv(), "pip", "compile", "--quiet", "--no-header", "--generate-hashes", "--no-emit-find-links"]
    run = [*command, *options, "-"]
    return subprocess.run(run, input=requirements, capture_output=True, text=True, check=True).stdout


def _pin(requirement: str) -> str:
    command = [find_uv(), "pip", "compile", "--quiet", "--no-deps", "--no-header", "--generate-hashes", "-"]
    return subprocess.run(command, input=requirement, capture_output=True, text=True, check=True).stdout
