"""`modelbuild doctor --on`: a line for each check of a device, and for each problem."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modelbuild.device_runners import parse_address
from modelbuild.devices.device import Device
from tests.devices.sshd import Sshd, free_port
from tests.format_shapes import check_format
from tests.workspace_builder import Workspace

BUILD = """
[[device_target]]
name = "pc"
arch = "x86_64"
[[device_target]]
name = "gpu"
arch = "x86_64"
compute_capabilities = ["8.7"]
runners = [":here"]
[[device_target]]
name = "board"
arch = "aarch64"
[[device_runner]]
name = "here"
connection = {{ type = "local" }}
folder = "{folder}"
"""
CHECKS = ["device", "system", "gpu", "disk", "lock", "store", "clock", "c++ runtime"]


@pytest.fixture
def declared(workspace: Workspace, tmp_path: Path) -> Workspace:
    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": BUILD.format(folder=tmp_path / "device")})
    return workspace


def installed(folder: Path, script: str) -> str:
    """Install a runtime whose program is a script; return the PYTHONPATH."""
    root = folder / "python/modelbuild_runtime_native"
    (root / "bin").mkdir(parents=True)
    (root / "lib").mkdir()
    for name, text in {"__init__.py": "", "runtime.json": "{}", "lib/liba.so.1": "a", "lib/about.json": ""}.items():
        (root / name).write_text(text)
    (root / "bin/modelbuild-run").write_text(f"#!/bin/sh\n{script}\n")
    return str(root.parent)


def program(folder: Path, name: str, script: str) -> str:
    """Return a PATH on which a program is a script."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / "bin" / name).chmod(0o755)
    return f"{folder / 'bin'}:{os.environ['PATH']}"


def test_each_check_of_a_device_over_ssh_is_a_line(declared: Workspace, server: Sshd, tmp_path: Path) -> None:
    python = installed(tmp_path, '[ "$1" = --help ] && [ -f runtime/lib/liba.so.1 ] && [ ! -e runtime/lib/about.json ]')
    runner = f"--runner=//:pc={server.at(server.port, folder=tmp_path / 'far')}"
    ended = declared.run("doctor", "--on=//:pc", runner, "--json", PYTHONPATH=python)
    assert (ended.code, ended.err) == (0, "")
    check_format("doctor-on", ended.json)
    found = {each["name"].removeprefix(server.address.partition("?")[0]).strip(): each for each in ended.json["checks"]}
    assert list(found) == CHECKS
    assert {name for name, each in found.items() if each["status"] != "ok"} <= {"disk"}
    assert "x86_64" in found["device"]["text"]
    assert found["clock"]["text"] == "within a second of this machine's"
    assert found["c++ runtime"]["text"] == "starts (2 files)"
    assert found["store"]["text"].startswith("0 files, ")
    again = declared.run("doctor", "--on=//:pc", runner, PYTHONPATH=python).out
    assert "store: 2 files, " in again
    assert not list((tmp_path / "far").glob("jobs/*"))


def test_an_address_needs_no_workspace_and_names_what_is_wrong(
    workspace: Workspace, server: Sshd, tmp_path: Path
) -> None:
    python = installed(tmp_path, "echo 'libz.so.9: cannot open shared object file' >&2; exit 127")
    ended = workspace.run("doctor", f"--on={server.at(server.port, folder=tmp_path / 'far')}", PYTHONPATH=python)
    assert ended.code == 36
    assert "c++ runtime: does not start: libz.so.9: cannot open shared object file\n" in ended.out
    unreached = workspace.run("doctor", f"--on=ssh://127.0.0.1:{free_port()}", "--json")
    assert unreached.code == 36
    (gone,) = unreached.json["checks"]
    assert (gone["status"], gone["text"]) == ("error", "nothing accepts connections on this port")


def test_a_device_with_problems(declared: Workspace, tmp_path: Path) -> None:
    path = program(tmp_path, "date", "echo 1000000000")
    program(tmp_path, "nvidia-smi", "exit 9")
    address = f"local:?folder={tmp_path / 'device'}"
    device = Device(parse_address(address))
    python = installed(tmp_path, "")
    with device.session("//:my_test", 5, lambda text: None):
        ended = declared.run("doctor", "--on=//:gpu", "--json", PATH=path, PYTHONPATH=python)
    device.close()
    assert ended.code == 0, ended.out
    found = {each["name"].removeprefix("//:here "): each for each in ended.json["checks"]}
    assert found["clock"]["status"] == found["lock"]["status"] == found["gpu"]["status"] == "warning"
    assert found["clock"]["text"].startswith("off by ")
    assert found["lock"]["text"].endswith("for //:my_test")
    assert found["gpu"]["text"] == "nvidia-smi states no GPU; expected compute capability 8.7, as declared"
    assert found["c++ runtime"]["text"].startswith("not checked: in use by ")


def test_a_device_of_another_kind_and_one_without_a_runner(declared: Workspace, tmp_path: Path) -> None:
    runner = f"--runner=//:board=local:?folder={tmp_path / 'device'}"
    ended = declared.run("doctor", "--on=//:board", runner, "--json")
    assert ended.code == 36
    wrong = ended.json["checks"]
    assert (wrong[0]["status"], wrong[0]["text"]) == ("error", "it is x86_64; expected aarch64, as declared")
    (none,) = declared.run("doctor", "--on=:board", "--json").json["checks"]
    assert none["text"] == "the device has no runner"
    assert declared.run("doctor", "--on=//:here").err.startswith("error: //:here is a device_runner; expected")
    assert "expected --on as well" in declared.run("doctor", "--runner=//:pc=local:").err


def test_without_an_installed_runtime_it_is_not_checked(declared: Workspace, tmp_path: Path) -> None:
    python = installed(tmp_path, "")
    (tmp_path / "python/modelbuild_runtime_native/runtime.json").unlink()
    line = declared.run("doctor", f"--on=local:?folder={tmp_path / 'device'}", PYTHONPATH=python).out.splitlines()[-1]
    expected = "not checked: no modelbuild-runtime with a C++ runtime is installed here; expected its wheel"
    assert line == f"warning  local: c++ runtime: {expected}"
