"""Candidates are timed by a program of their own, and its tuning file decides the library. The GPU is a fake."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.workspace_builder import Workspace

pytestmark = pytest.mark.xdist_group("cuda")

BUILD = """
[[torch_model]]
name = "model"
entry = "net.py:Net"
inputs = [{ name = "x", shape = [16, 64], dtype = "float32" }]

[[device_target]]
name = "device"
arch = "x86_64"
compute_capabilities = ["9.0"]
"""
PROGRAM = """
[[backend_stack]]
name = "{name}_stack"
backends = [{{ type = "cuda", min_block_size = 1{more} }}, "portable"]

[[pte_program]]
name = "{name}"
model = ":model"
stack = ":{name}_stack"
device = ":device"
"""
WAYS = {"cost": "", "candidates": ", candidates = 64", "file": ', tuning = "net.tuning.json"'}


class Net(nn.Module):
    """Few candidates, with different costs on the fake GPU."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(self.linear(x))


@pytest.fixture(scope="module")
def compiled(
    lower_to: Callable[[Any, Path], Path], timed_driver: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return the outputs of compile_choices.py."""
    folder = tmp_path_factory.mktemp("tuned")
    program = torch.export.export(Net().eval(), (torch.ones(16, 64),), strict=False)
    partition = lower_to(program, folder / "lowered")
    script = Path(__file__).with_name("compile_choices.py")
    done = subprocess.run(
        [sys.executable, script, partition, folder, timed_driver],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


def contents(folder: Path) -> Mapping[str, bytes]:
    """Return everything that becomes part of the program, by file name."""
    aside = {"about.json", "tuning.pyz"}
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in aside}


def choices(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "about.json").read_text()).get("choices", {})
    return found


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_tuning_file_decides_the_library_and_candidates_do_not(compiled: Path) -> None:
    cost, candidates, file = (contents(compiled / name) for name in WAYS)
    assert cost == candidates
    assert cost != file


@pytest.mark.slow
@pytest.mark.exhaustive
def test_choices_are_written_down_and_counted(compiled: Path) -> None:
    file = json.loads((compiled / "net.tuning.json").read_text())
    (entry,) = file["choices"]
    assert [file[name] for name in ("torch", "capability")] == [torch.__version__.partition("+")[0], "9.0"]
    assert (entry["op"], entry["gpu"], entry["driver"]) == ("mm", "Fake GPU 0", "CUDA 13.1")
    assert entry["microseconds"] < entry["by_cost"]
    assert [choices(compiled / name) for name in WAYS] == [{}, {}, {"tuned": 1, "by_cost": []}]
    assert [(compiled / name / "tuning.pyz").exists() for name in WAYS] == [False, True, False]


@pytest.mark.slow
@pytest.mark.exhaustive
def test_compiling_shows_each_candidate_and_each_kernel(compiled: Path) -> None:
    parts = json.loads((compiled / "cost.parts").read_text())
    assert parts[0] == ["generating code"]
    assert "candidate for mm" not in {each[0] for each in parts}
    kernels = [each for each in parts if each[0] == "kernel"]
    assert kernels
    assert kernels == [["kernel", number, len(kernels)] for number in range(1, len(kernels) + 1)]
    timed = json.loads((compiled / "candidates.parts").read_text())
    numbers = [number for what, number, total in timed[1:] if what == "candidate for mm"]
    assert len(numbers) > 2
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.slow
@pytest.mark.exhaustive
def test_tuned_programs(know_runtime: Callable[..., None], timed_driver: Path, workspace: Workspace) -> None:
    """Through the command line."""
    workspace.write(
        {
            "MODELBUILD.toml": "",
            "net.py": f"import torch\nfrom torch import nn\n\n\n{inspect.getsource(Net)}",
            "net.tuning.json": "{}",
            "BUILD.toml": BUILD + "".join(PROGRAM.format(name=n, more=more) for n, more in WAYS.items()),
        }
    )
    made = workspace.root / "modelbuild-out/device"
    know_runtime(workspace.root, workspace.cache, "//:cost")
    workspace.build("//:cost", "//:candidates")
    subprocess.run(
        [sys.executable, "-I", "-S", made / "candidates/candidates.tuning.pyz", workspace.root / "new.json"],
        env={"LD_LIBRARY_PATH": str(timed_driver)},
        check=True,
    )
    shutil.copy(workspace.root / "new.json", workspace.root / "net.tuning.json")
    workspace.build("//:file")
    cost, candidates, file = ((made / name / f"{name}.pte").read_bytes() for name in WAYS)
    assert cost == candidates
    assert cost != file
