"""The program on a remote worker, without a server: in its folder, with the sandbox of a local action."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import modelbuild
from modelbuild.actions import Action, Digest, Output
from modelbuild.code.step_sources import StepCode
from modelbuild.execution.executor import ActionRequest
from modelbuild.execution.isolation import landlock
from modelbuild.execution.isolation.environment import PYTHON_OPTIONS
from modelbuild.remote.execution.remote_action import Workers, describe
from modelbuild.remote.messages import message
from tests.execution.isolation.conftest import WITHOUT_NAMESPACES
from tests.remote.test_remote_execution import staged

# Tries forbidden operations, and leaves a process running.
STEP = """
import ctypes, json, os, subprocess, sys, time, traceback
from tiny_rules._words import WORDS

def run(step):
    cat = subprocess.run(["cat", step.params["secret"]], stdout=subprocess.PIPE, text=True).stdout
    stack = traceback.extract_stack()  # reads the sources of all callers, as libraries do for warnings
    sockets = [ctypes.CDLL(None).socket(family, 2, 0) for family in (2, 10)]
    program = "import time; print('begun', flush=True); time.sleep(600)  # " + step.params["secret"]
    left = subprocess.Popen([sys.executable, "-c", program], start_new_session=True, stdout=subprocess.PIPE)
    left.stdout.readline()
    step.outputs["out"].write_text(json.dumps([WORDS, cat, sockets, stack[0].line]))
"""


@pytest.mark.parametrize("prefix", [(), WITHOUT_NAMESPACES], ids=["kernel", "fallback"])
def test_a_step_is_held_to_what_it_is_held_to_elsewhere(tmp_path: Path, prefix: tuple[str, ...]) -> None:
    if not landlock.abi():
        pytest.skip("not run: this kernel has no Landlock, or it is switched off")
    if prefix and subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        pytest.skip("not run: this machine allows no user namespaces, so that the other mode is this one")
    rules = tmp_path / "rules/tiny_rules"
    rules.mkdir(parents=True)
    for name, text in {"__init__.py": "", "_words.py": "WORDS = 'w'\n", "tiny.py": STEP}.items():
        (rules / name).write_text(text)
    (tmp_path / "secret").write_text("s")
    ended, folder = run(
        StepCode({"modelbuild": Path(modelbuild.__file__).parent, "tiny_rules": rules}), tmp_path, prefix
    )
    assert ended.returncode == 0, ended.stderr + (folder / "stderr").read_text()
    assert json.loads((folder / "root/.outputs/out").read_text()) == ["w", "", [-1, -1], "sys.exit(main())"]
    assert json.loads((folder / "ended").read_text())["status"] == 0
    assert json.loads((folder / "report").read_text())["end"] == "done"
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and str(tmp_path / "secret") in command(pid)]


def run(code: StepCode, tmp_path: Path, prefix: tuple[str, ...]) -> Any:
    """Run an action as a worker does; returns how that ended, and its folder."""
    step, outputs = "tiny_rules.tiny", (Output("out", "out"),)
    action = Action("//a:b#c", "//a:b", "c", step, outputs=outputs, params={"secret": str(tmp_path / "secret")})
    described = describe(ActionRequest(action, (), {}, code.modules(step)), Workers(code, sys.executable, {}))
    root = message("Action").FromString(described.blobs[described.action]).input_root_digest
    staged(described, Digest(root.hash, root.size_bytes), tmp_path / "worker")
    folder = tmp_path / "worker/action"
    command = [*prefix, sys.executable, *PYTHON_OPTIONS, "-B", "code/modelbuild/remote/execution/worker_entry.py"]
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, cwd=folder, env=plain, capture_output=True, text=True, check=False), folder


def command(pid: str) -> str:
    try:
        return Path("/proc", pid, "cmdline").read_text()
    except OSError:
        return ""
