"""pte_test with the C++ runtime of another architecture: run by qemu, which the result names, or not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.native.aarch64 import Runtime
from tests.runtime.native.scaled_model import MODEL, NET
from tests.workspace_builder import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive, pytest.mark.xdist_group("aarch64")]

PROGRAM = """
[[device_target]]
name = "arm"
arch = "aarch64"
[[backend_stack]]
name = "stack"
backends = ["xnnpack", "portable"]
[[pte_program]]
name = "program"
model = ":model_2"
stack = ":stack"
"""
TEST = """
[[pte_test]]
name = "{name}"
program = ":program"
model = ":model_{scale}"
device = ":arm"
cases = [{{ name = "drawn", generator = {{ seed = 3 }} }}]
{more}
"""
RUNTIME = 'runtime = { archive = "runtime-aarch64.tar" }\n'


def test_a_program_of_another_architecture_is_run_by_qemu(aarch64: Runtime, tmp_path: Path) -> None:
    tests = [
        TEST.format(name="right", scale=2, more=RUNTIME),
        TEST.format(name="wrong", scale=3, more=RUNTIME),
        TEST.format(name="slow", scale=2, more=f"{RUNTIME}latency = {{ ratio = 1e-9 }}\n"),
        TEST.format(name="bare", scale=2, more=""),
        TEST.format(name="there", scale=2, more=f"{RUNTIME}on_device = true\n"),
        TEST.format(name="wrong_there", scale=3, more=f"{RUNTIME}on_device = true\n"),
    ]
    models = [MODEL.format(scale=scale, shape="[2, 16]") for scale in (2, 3)]
    workspace = Workspace(
        tmp_path, {"MODELBUILD.toml": "", "net.py": NET, "BUILD.toml": "".join([PROGRAM, *models, *tests])}
    )
    (workspace.root / "runtime-aarch64.tar").symlink_to(aarch64.archive)
    runner = f"--runner=//:arm=qemu:aarch64?folder={tmp_path / 'device'}"
    found = workspace.test("//...", "--keep-going", "--jobs=1", "--bisect", runner, code=4)
    there = {name: found.pop(f"//:{name}") for name in ("there", "wrong_there")}
    assert [each["status"] for each in there.values()] == ["passed", "failed"]
    assert there["there"]["reason"].startswith("on qemu:aarch64 (qemu-aarch64 version ")
    assert not {"latency_ms", "peak_memory"} & there["there"]["measures"].keys()
    # The program is right for its own model: no node of it is wrong for another one's export.
    searched = [each["cases"][-1]["message"] for each in (there["wrong_there"], found["//:wrong"])]
    assert searched[0].startswith("case drawn: first wrong node: "), searched
    note = "run by qemu-aarch64, which emulates aarch64"
    bare = (
        "needs the C++ runtime for aarch64; expected the package modelbuild-runtime-aarch64, or the attribute 'runtime'"
    )
    assert {name: (each["status"], each["reason"]) for name, each in found.items()} == {
        "//:right": ("passed", note),
        "//:wrong": ("failed", f"its case failed; {note}"),
        "//:slow": ("passed", note),
        "//:bare": ("not_run", bare),
    }
    assert "latency_ms" not in found["//:right"]["measures"]
    (skipped,) = (case for case in found["//:slow"]["cases"] if case["status"] == "not_run")
    assert (skipped["name"], skipped["message"]) == ("latency.ratio", "it is not measured in qemu-aarch64")
