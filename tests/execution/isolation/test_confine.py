"""Limits on kernels that lack features of newer ones."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from modelbuild.execution.isolation import confine, namespaces, seccomp

# Imposes limits, connects to a socket with a name but no path, and prints the result.
SCRIPT = """
import os, socket, sys
from modelbuild.execution.isolation import confine
from modelbuild.execution.isolation import landlock
from modelbuild.execution.isolation import namespaces
from modelbuild.execution.isolation.system_calls import drop_capabilities
scratch, name = sys.argv[1:]
landlock.abi = lambda: 5
views = namespaces.Views(scratch, [], [])
views.hidden().join()
confine.ProcessLimits(("/usr", "/proc"), (), ("/dev",), frozenset((socket.AF_UNIX,))).impose()
drop_capabilities()
try:
    socket.socket(socket.AF_UNIX).connect("\\0" + name)
    print("reached")
except OSError as error:
    print(type(error).__name__)
"""


def test_older_kernels_isolate_sockets_without_a_path(tmp_path: Path) -> None:
    if why := namespaces.refusal(str(tmp_path)):
        pytest.skip(f"not run: no namespaces here, {why}")
    name = f"modelbuild-test-{tmp_path}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()
        command = [sys.executable, "-c", SCRIPT, str(tmp_path), name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("ConnectionRefusedError\n", "")


def test_a_machine_of_an_unknown_kind_refuses_no_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "_MACHINES", {})
    seccomp.available.cache_clear()
    try:
        assert not seccomp.available()
        seccomp.refuse(frozenset())
        socket.socket(socket.AF_INET).close()
    finally:
        seccomp.available.cache_clear()


def test_files_of_modules(tmp_path: Path) -> None:
    """A module may be a file or a package, with or without byte code."""
    tag = sys.implementation.cache_tag
    wanted = ["__init__.py", "steps/x.py", f"steps/__pycache__/x.{tag}.pyc", "deep/__init__.py"]
    wanted += [f"deep/__pycache__/__init__.{tag}.pyc"]
    for file in [
        *wanted,
        "data.txt",
        "steps/y.py",
        f"steps/__pycache__/y.{tag}.pyc",
        "steps/__pycache__/x.cpython-27.pyc",
    ]:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    code = confine.Code.of(["rules", "rules.steps.x", "rules.deep", "other.y"], {"rules": str(tmp_path)})
    assert code.folders == {str(tmp_path): "rules"}
    assert set(code.present) == {str(tmp_path / file) for file in wanted}
    assert code.files >= {*code.present, str(tmp_path / f"__pycache__/__init__.{tag}.pyc")}
