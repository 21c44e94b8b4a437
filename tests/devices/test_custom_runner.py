"""The runner of docs/how-to/custom-runner.md: a rule package outside the tree, with a program that stands for adb."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from modelbuild.device_runners import DeviceRunner
from modelbuild.devices.device import Device, LocalFile
from modelbuild.devices.problems import ConnectionLost, DeviceProblem
from tests.devices.sshd import running, wait_for
from tests.docs.pages import File, parts
from tests.workspace_builder import Workspace

SLEEP = f"86323.{os.getpid()}"  # of this process of tests alone: others run beside it
SERIAL = "0a388e93"
ADB = """#!/bin/sh
# adb -s SERIAL get-state, adb -s SERIAL shell -T LINE: on this machine, while the file `plugged` is there.
if [ "$1 $2" != "-s 0a388e93" ] || [ ! -e {folder}/plugged ]; then
    echo "error: device '$2' not found" >&2
    exit 1
fi
case $3 in
    get-state) echo device ;;
    shell) sh -c "$5" ;;
esac
"""


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a board; adb in PATH reaches it."""
    program = tmp_path / "bin/adb"
    program.parent.mkdir()
    program.write_text(ADB.format(folder=tmp_path))
    program.chmod(0o755)
    (tmp_path / "plugged").touch()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return tmp_path


@pytest.fixture
def runner(board: Path) -> DeviceRunner:
    adb = ("adb", "-s", SERIAL)
    commands = {"command": (*adb, "shell", "-T"), "check": (*adb, "get-state")}
    return DeviceRunner("//:board_1", "command", folder=str(board / "device"), **commands)


def hush(text: str) -> None:
    """Do nothing."""


def test_the_guides_rule_reaches_a_board(repository: Path, board: Path, workspace: Workspace) -> None:
    page = (repository / "docs/how-to/custom-runner.md").read_text()
    files = {each.path: each.text for each in parts(page) if isinstance(each, File)}
    assert files.keys() == {"tools/rules/__init__.py", "tools/rules/adb.py", "BUILD.toml"}
    build = files["BUILD.toml"].replace("aarch64", os.uname().machine)
    build = build.replace(f'serial = "{SERIAL}"', f'serial = "{SERIAL}"\nfolder = "{board}/device"')
    workspace.write({**files, "MODELBUILD.toml": 'rules = ["//tools/rules"]\n', "BUILD.toml": build})
    ended = workspace.run("devices", "//:board", "--json")
    assert (ended.code, ended.err) == (0, "")
    (found,) = ended.json["devices"][0]["runners"]
    assert (found["runner"], found["state"], found["problem"]) == ("//:board_1", "free", "")
    assert found["address"] == f"adb -s {SERIAL} shell -T"
    assert found["identity"]["arch"] == os.uname().machine
    (board / "plugged").unlink()
    (found,) = workspace.run("devices", "--json").json["devices"][0]["runners"]
    assert (found["state"], found["problem"]) == ("unusable", f"error: device '{SERIAL}' not found")
    other = workspace.run("devices", PATH="/usr/bin:/bin")
    assert "  no adb on this machine; expected the program that //:board_1 names" in other.out


def test_a_job_runs_by_a_command(runner: DeviceRunner, file: Callable[..., LocalFile], tmp_path: Path) -> None:
    device = Device(runner)
    script = file('cat data/in; echo "$1"; echo oops >&2; exit 3')
    with device.session("//:t", 5, hush) as session:
        session.put({"run": script, "data/in": file(b"\0\1\n\2" * 100_000)})
        ended = session.run("one", ["./run", "a b'\"$HOME"], 20)
        session.get(tmp_path / "outputs")
    assert ended.status == 3
    assert (tmp_path / "outputs/one/stdout").read_bytes() == b"\0\1\n\2" * 100_000 + b"a b'\"$HOME\n"
    with device.session("//:t", 5, hush) as session:
        session.put({"run": file(f"setsid sleep {SLEEP} & sleep {SLEEP}")})
        assert session.run("one", ["./run"], 1).timed_out
    assert running(SLEEP) == []
    device.close()


def test_a_board_that_is_unplugged_frees_the_lock(
    runner: DeviceRunner, board: Path, file: Callable[..., LocalFile]
) -> None:
    device = Device(runner)

    def unplug() -> None:
        wait_for(lambda: running(SLEEP), "the program does not start")
        (board / "plugged").unlink()
        for pid in running(f"{board}/device"):  # its scripts, and adb's own processes
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    cutter = threading.Thread(target=unplug)
    with pytest.raises(ConnectionLost, match="the connection was lost"):
        sleep_there(device, file(f"sleep {SLEEP}"), cutter.start)
    cutter.join()
    with pytest.raises(DeviceProblem, match=f"error: device '{SERIAL}' not found"):
        Device(runner)
    (board / "plugged").touch()
    with device.session("//:t", 60, hush):
        wait_for(lambda: not running(SLEEP), "the program still runs")
    device.close()


def sleep_there(device: Device, script: LocalFile, before: Callable[[], object]) -> None:
    """Run a program that sleeps for days, after `before`."""
    with device.session("//:t", 5, hush) as session:
        session.put({"run": script})
        before()
        session.run("one", ["./run"], 60)


WRONG = [
    {"kind": "command"},
    {"kind": "command", "command": ("a\nb",)},
    {"kind": "local", "command": ("adb",)},
    {"kind": "local", "check": ("adb",)},
]


@pytest.mark.parametrize("given", WRONG)
def test_a_command_belongs_to_a_runner_of_commands(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="expected "):
        DeviceRunner("//:r", **given)  # type: ignore[arg-type]


def test_no_address_and_no_declaration_names_a_command(workspace: Workspace) -> None:
    build = '[[device_target]]\nname = "d"\narch = "x86_64"\n'
    build += '[[device_runner]]\nname = "r"\nconnection = { type = "command" }\n'
    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": build})
    assert "BUILD.toml:6:1: attribute 'connection': expected one of" in workspace.run("cquery", "//...").err
    for kind in ("command", "remote"):
        ended = workspace.run("devices", f"--runner=//:d={kind}:x")
        assert (ended.code, ended.err.count("\n")) == (2, 1)
        assert ended.err.startswith(
            f"error: '{kind}:x' is not the address of a device; expected local:, qemu:ARCH or ssh"
        )
