"""`modelbuild test` lays out the programs that it tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workspace_builder import Workspace

NET = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2
"""
BUILD = """
[[torch_model]]
name = "model"
entry = "net.py:Net"
inputs = [{ name = "x", shape = [4], dtype = "float32", range = [-1, 1] }]
outputs = ["y"]
[[pte_program]]
name = "program"
model = ":model"
stack = ["portable"]
[[pte_test]]
name = "program_test"
program = ":program"
model = ":model"
cases = [{ name = "drawn", generator = { seed = 3 } }]
tolerance = { abs = 0 }
[[test_suite]]
name = "tests"
tests = [":program_test"]
"""
OLD = """
[[torch_model]]
name = "old"
entry = "old.py:Net"
inputs = [{ name = "x", shape = [4], dtype = "float32", range = [-1, 1] }]
outputs = ["y"]
"""
BUILT = {"delegation.json", "program.pte", "signature.json"}

pytestmark = pytest.mark.slow


def laid_out(workspace: Workspace) -> dict[str, bytes]:
    folder = workspace.root / "modelbuild-out/default/program"
    return {path.name: path.read_bytes() for path in folder.glob("*")}


def nothing_to_do(workspace: Workspace, *words: str) -> bool:
    ended = workspace.run(*words)
    assert ended.code == 0
    return "Nothing to do" in ended.out


def actions_ran(workspace: Workspace, *options: str) -> int:
    """Test, and return the number of actions that ran."""
    ended = workspace.run("test", "//:tests", *options, "--json")
    assert ended.code == 0
    number: int = ended.json["counts"]["ran"]
    return number


def test_the_program_lies_where_a_build_puts_it(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, {"MODELBUILD.toml": "", "BUILD.toml": BUILD, "net.py": NET})
    assert workspace.run("test", "//:tests").code == 0
    first = laid_out(workspace)
    assert first.keys() == BUILT
    assert actions_ran(workspace) == 0
    (workspace.root / "modelbuild-out/default/program/program.pte").unlink()
    assert actions_ran(workspace) == 0
    assert laid_out(workspace) == first

    assert not nothing_to_do(workspace, "build", "//:program")
    whole = laid_out(workspace)
    assert whole.keys() == BUILT | {"verified.json"}
    assert actions_ran(workspace, "--no-cache-test-results") > 0
    assert laid_out(workspace) == whole
    assert nothing_to_do(workspace, "build", "//:program")

    workspace.edit("net.py", "* 2", "* 3")
    workspace.edit("BUILD.toml", 'model = ":model"\ncases', 'model = ":old"\ncases')
    workspace.add("BUILD.toml", OLD)
    workspace.write({"old.py": NET})
    assert workspace.run("test", "//:program_test").code == 4
    failed = laid_out(workspace)
    assert failed.keys() == BUILT
    assert failed["program.pte"] != whole["program.pte"]


def test_nothing_is_laid_out_if_outputs_stay_in_the_caches(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, {"MODELBUILD.toml": "", "BUILD.toml": BUILD, "net.py": NET})
    remote = (f"--remote-cache=file://{tmp_path}/remote", "--remote-download=minimal")
    assert workspace.run("test", "//:tests", *remote).code == 0
    assert laid_out(workspace) == {}
