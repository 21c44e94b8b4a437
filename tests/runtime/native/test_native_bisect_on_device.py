"""test --bisect on a device: the first wrong node of planted faults, over ssh to OpenSSH's server on this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.devices.sshd import Sshd
from tests.testing import test_bisect_methods
from tests.testing.test_bisect import FILES, line
from tests.workspace_builder import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

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
runtime = { archive = "runtime.tar" }
cases = [{ name = "right", generator = { seed = 1 } }, { name = "drawn", generator = { seed = 3, calls = 2 } }]
tolerance = { abs = 1e-4, rel = 1e-4 }
[[pte_test]]
name = "slow_there"
program = ":good"
model = ":model"
device = ":pc"
on_device = true
runtime = { archive = "runtime.tar" }
cases = [{ name = "drawn", generator = { seed = 3 } }]
latency = { max = { ":pc" = "0.001 us" } }
"""


def pack(repository: Path, native: Path, archive: Path) -> None:
    command = [sys.executable, repository / "runtime/archive.py", "--build", native, "--out", archive]
    subprocess.run(command, check=True, capture_output=True)


def test_planted_faults_are_found_on_a_device(repository: Path, native: Path, server: Sshd, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, FILES)
    workspace.add("m/BUILD.toml", THERE)
    pack(repository, native, workspace.root / "m/runtime.tar")
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


ON_DEVICE = """
device = ":pc"
on_device = true
runtime = { archive = "runtime.tar" }
latency = { runs = 5 }
"""
RIGHT = """
[[pte_program]]
name = "right_program"
model = ":model"
stack = ":stack"
[[device_target]]
name = "pc"
arch = "x86_64"
"""


@pytest.mark.exhaustive
def test_a_fault_of_a_method_is_found_on_a_device(repository: Path, native: Path, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, test_bisect_methods.FILES)
    test = test_bisect_methods.TEST.replace("MORE", ON_DEVICE).replace(
        '["state", "output"]', '["state", "output", "right"]'
    )
    workspace.add("m/BUILD.toml", RIGHT + test)
    pack(repository, native, workspace.root / "m/runtime.tar")
    local = f"--runner=//m:pc=local:?folder={tmp_path / 'device'}"
    found = workspace.test("//m:all", "--bisect", "--keep-going", local, code=4)
    right = found.pop("//m:right_test")
    assert right["status"] == "passed"
    assert right["measures"].keys() >= {"latency_ms", "latency_p95_ms", "latency_ms_read", "first_ms"}
    test_bisect_methods.check(found)
