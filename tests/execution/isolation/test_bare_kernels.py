"""The guarantees that hold on a kernel without Landlock, seccomp and namespaces."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.execution.isolation.conftest import Probes
from tests.execution.isolation.test_processes import running

# Makes the kernel refuse these calls as unknown, then runs the command. Its own filter is the last use of seccomp.
WITHOUT = """
import os, sys
from modelbuild.execution.isolation import seccomp
machine = seccomp._MACHINES[os.uname().machine]
unshare, setns = {"x86_64": (272, 308), "aarch64": (97, 268)}[os.uname().machine]
absent = (444, 445, 446, unshare, setns, machine.seccomp)
seccomp._MACHINES[os.uname().machine] = seccomp._Machine(machine.architecture, machine.seccomp, 0, absent, ())
seccomp.refuse(None)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def bare(tmp_path: Path) -> Probes:
    return Probes(tmp_path, (sys.executable, "-c", WITHOUT))


def test_it_is_said_what_does_not_hold(bare: Probes) -> None:
    said = bare.run("info", "sandbox").out
    assert [line.partition(" (")[0] for line in said.splitlines() if line.startswith("holds")] == [
        "holds: Python code opens no file that is not declared",
        "holds: no process that an action starts outlives it",
    ]
    assert "does not hold: an action without a network has none (no seccomp for" in said
    assert "(no Landlock; no mount namespaces: user namespaces are not allowed here, unshare: Function not" in said


def test_actions_run_and_their_processes_share_what_they_like(bare: Any) -> None:
    source = """
        import json, multiprocessing, socket
        def run(step):
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                found = pool.map(abs, [-1, 2])
            step.outputs["out"].write_text(json.dumps([found, socket.socket(socket.AF_UNIX).fileno() > 0]))
    """
    assert bare.probe(source) == [[1, 2], True]


def test_python_code_is_kept_to_what_is_declared(bare: Any, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("d")
    bare.write({"secret.txt": "s"})
    secret = bare.root / "secret.txt"
    bare.step("reads", f"def run(step):\n    open({str(secret)!r})\n")
    bare.step("goes_out", f"def run(step):\n    open({str(tmp_path / 'data')!r})\n")
    bare.step("writes", f"def run(step):\n    open({str(tmp_path / 'new')!r}, 'w')\n")
    bare.step("calls", "import socket\ndef run(step):\n    socket.create_connection(('localhost', 80))\n")
    for name in ("reads", "goes_out", "writes", "calls"):
        bare.target(name, name)
    said = bare.build_all().err
    assert "step probe.steps.reads reads secret.txt, which is not a declared input" in said
    assert f"step probe.steps.goes_out reads {tmp_path}/data, which is outside the workspace" in said
    assert "an action may write only its outputs and temporary files" in said
    assert "step probe.steps.calls uses the network" in said
    assert not (tmp_path / "new").exists()


def test_nothing_that_an_action_started_outlives_it(bare: Any) -> None:
    source = """
        import subprocess, sys
        def run(step):
            sleeps = [sys.executable, "-c", "import time; time.sleep(600)", str(step.root)]
            subprocess.Popen(sleeps, start_new_session=True)
            step.outputs["out"].write_text("1")
    """
    assert bare.probe(source) == 1
    assert running(str(bare.cache)) == []
