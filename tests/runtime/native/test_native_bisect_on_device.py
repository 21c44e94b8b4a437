"""test --bisect on a device: the first wrong node of planted faults, over ssh to OpenSSH's server on this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.devices.sshd import Sshd
from tests.testing.test_bisect import FILES, line
from tests.workspace_builder import Workspace

pytestmark = pytest.mark.slow

THERE = """
[[device_target]]
name = "pc"
arch = "x86_64"
[[pte_test]]
name = "{fault}_there"
matrix = { fault = ["constant", "operator", "bytes"] }
program = ":{fault}"
model = ":model"
device = ":pc"
on_device = true
runtime = "runtime.tar"
inputs = [{ name = "right", generator = { seed = 1 } }, { name = "drawn", generator = { seed = 3, calls = 2 } }]
tolerance = { abs = 1e-4, rel = 1e-4 }
[[pte_test]]
name = "slow_there"
program = ":good"
model = ":model"
device = ":pc"
on_device = true
runtime = "runtime.tar"
inputs = [{ name = "drawn", generator = { seed = 3 } }]
max_latency = { ":pc" = "0.001 us" }
"""


def test_planted_faults_are_found_on_a_device(repository: Path, native: Path, server: Sshd, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, FILES)
    workspace.add("m/BUILD.toml", THERE)
    archive = workspace.root / "m/runtime.tar"
    pack = [sys.executable, repository / "runtime/archive.py", "--build", native, "--out", archive]
    subprocess.run(pack, check=True, capture_output=True)
    tests = [f"//m:{name}_there" for name in ("constant", "operator", "bytes", "slow")]
    runner = f"--runner=//m:pc={server.address}"
    found = workspace.test(*tests, "--bisect", "--keep-going", runner, code=4)
    last = {name: test["cases"][-1] for name, test in found.items()}
    assert {case["name"] for case in last.values()} == {"bisect"}

    constant = last["//m:constant_there"]
    assert (
        "first wrong node: conv2d_1 (aten.convolution.default) of second, in partition p0 (xnnpack): it differs by"
        in (constant["message"])
    )
    assert constant["message"].startswith("case right: ")
    assert constant["place"] == line("y = self.second(y) + y")
    operator = last["//m:operator_there"]
    assert "first wrong node: mean (aten.sum.dim_IntList), outside partitions (portable): it " in operator["message"]
    assert operator["place"] == line("y = torch.cumsum(y.mean(dim=(2, 3)), 1)")
    changed = last["//m:bytes_there"]
    assert changed["message"].endswith("; compiled again with their results as outputs, all its nodes are right")
    assert last["//m:slow_there"]["message"] == "parity holds in every case"
    assert not list(server.folder.glob("jobs/*"))
