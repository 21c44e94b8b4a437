"""No process that an action started lives when its outputs are collected."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

# Each starts WRITES, a command that writes to the action's output for as long as it lives, and leaves it running.
LEAVES = {
    "in a session of its own": "subprocess.Popen(WRITES, start_new_session=True)",
    "as a daemon": """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execv(WRITES[0], WRITES)
            os._exit(0)
        os.wait()
    """,
    "through a program that ends": """
        subprocess.run(["setsid", "sh", "-c", '"$@" &', "sh", *WRITES], check=True)
    """,
    "as a child of the worker's parent": """
        CLONE_PARENT, SIGCHLD = 0x8000, 17
        number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
        if ctypes.CDLL(None).syscall(number, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) == 0:
            os.execv(WRITES[0], WRITES)
    """,
    "below processes that adopt each other's": """
        PR_SET_CHILD_SUBREAPER = 36
        for _ in range(3):
            if os.fork() == 0:
                ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
                os.setsid()
                if os.fork() == 0:
                    subprocess.Popen(WRITES, start_new_session=True)
                time.sleep(600)
    """,
    "always as another process": """
        subprocess.Popen([sys.executable, "-c", FLEES, str(out)], start_new_session=True)
    """,
    "and dies": """
        subprocess.Popen(WRITES, start_new_session=True)
        while not out.exists():
            time.sleep(0.01)
        os.abort()
    """,
}

STEP = """
import ctypes, os, subprocess, sys, time

PROGRAM = '''
import os, sys, time
with open(sys.argv[1], "a", buffering=1) as file:
    for _ in range(60_000):
        print(os.getpid(), file=file)
        time.sleep(0.001)
'''

FLEES = '''
import os, sys
with open(sys.argv[1], "a", buffering=1) as file:
    for _ in range(60_000):
        print(os.getpid(), file=file)
        if os.fork():
            os._exit(0)
        os.setsid()
'''

def run(step):
    out = step.outputs["out"]
    WRITES = [sys.executable, "-c", PROGRAM, str(out)]
    LEAVE
    while not out.exists():
        time.sleep(0.01)
"""


def running(text: str) -> list[str]:
    """Return the command lines of processes that contain this text."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = file.read_text()
        except OSError:
            continue
        if text in command and file.parent.name != str(os.getpid()):
            found.append(command)
    return found


def test_nothing_that_an_action_started_outlives_it(workspace: Any) -> None:
    for number, how in enumerate(LEAVES):
        leave = indent(dedent(LEAVES[how]).strip("\n"), "    ")
        workspace.step(f"leaves{number}", STEP.replace("    LEAVE\n", f"{leave}\n"))
        workspace.target(f"leaves{number}", f"leaves{number}")
    done = workspace.build_all("--jobs=1")
    assert running(str(workspace.cache)) == []
    assert "killed by SIGABRT" in done.err
    assert len(list((workspace.root / "modelbuild-out").rglob("out.json"))) == len(LEAVES) - 1, done.err
    verified = workspace.run("cache", "verify")
    assert verified.code == 0, verified.out


def test_processes_of_another_action_go_on(workspace: Any) -> None:
    """The end of one action ends no process of a concurrent one."""
    workspace.step(
        "starts",
        """
        import json, subprocess
        def run(step):
            script = "sleep 2; echo done"
            program = subprocess.Popen(["sh", "-c", script], start_new_session=True, stdout=subprocess.PIPE, text=True)
            if step.params["name"] == "awaits":
                assert program.communicate()[0] == "done\\n"
            step.outputs["out"].write_text("1")
        """,
    )
    for name in ("awaits", "leaves"):
        workspace.target(name, "starts")
    done = workspace.build_all("--jobs=2")
    assert done.code == 0, done.err
