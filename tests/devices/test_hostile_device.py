"""What a hostile or broken device answers to each script, and a clock that is off by a year."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from modelbuild.device_runners import DeviceRunner
from modelbuild.devices import scripts
from modelbuild.devices.device import Device, LocalFile
from modelbuild.devices.problems import DeviceProblem, JobProblem
from modelbuild.devices.shells import LocalShell

File = Callable[..., LocalFile]
Answer = Callable[[str, str], None]
YEAR = 365 * 24 * 3600


class HostileShell(LocalShell):
    """This machine, where some scripts are replaced by others."""

    instead: dict[str, str]

    def __init__(self) -> None:
        self.instead = {}

    def start(self, script: str, *arguments: str) -> subprocess.Popen[bytes]:
        return super().start(self.instead.get(script, script), *arguments)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> HostileShell:
    found = HostileShell()
    monkeypatch.setattr("modelbuild.devices.device.open_shell", lambda runner: found)
    return found


@pytest.fixture
def device(shell: HostileShell, tmp_path: Path) -> Iterator[Device]:
    """Yield a device whose shell is `shell`."""
    found = Device(DeviceRunner("local:", "local", folder=str(tmp_path / "device")))
    yield found
    found.close()


def hush(text: str) -> None:
    """Do nothing."""


def problem_of(device: Device, file: File, folder: Path) -> DeviceProblem:
    """Run a job, which must end with a problem in one short line of plain characters."""
    with pytest.raises(DeviceProblem) as caught:
        job(device, file, folder)
    text = str(caught.value)
    assert text.isprintable()
    assert len(text) < 500
    return caught.value


def job(device: Device, file: File, folder: Path) -> str:
    with device.session("//:t", 2, hush) as session:
        session.put({"run": file("cat data; echo right"), "data": file(b"7" * 1000)})
        assert session.run("one", ["./run"], 5).status == 0
        session.get(folder)
    return (folder / "one/stdout").read_text()


ANSWERS = [
    ("HOLD", "printf '\\033[31mheld\\n'; sleep 1", "the device answers '\\x1b[31mheld'; expected its lock"),
    ("HOLD", "yes | tr -d '\\n'", "the device answers 'yyyy"),
    ("HOLD", "echo 'boom' >&2; exit 1", "its folder cannot be made (boom)"),
    (
        "HOLD",
        "printf 'busy \\033]0;x\\007me\\nlate\\n'",
        "in use by \\x1b]0;x\\x07me for more than 2 s; expected it free",
    ),
    ("HOLD", "printf 'busy %0900d\\nlate\\n' 7", "the device answers '000"),
    ("MISSING", "yes", "the device sent more than 194 bytes; expected less"),
    ("MISSING", "echo ../../etc/passwd", "the device lost a file that it had"),
    ("RECEIVE", "cat >/dev/null; exit 3", "the disk of the device is full, or a quota is; expected more space"),
    ("RECEIVE", "cat >/dev/null; exit 4", "a file changed while it was sent to the device; build again"),
    ("STAGE", "printf 'a\\n\\033[2Jb' >&2; exit 77", "\\x1b[2Jb"),
    ("STAGE", "yes >&2", "the device sent more than 16777216 bytes of errors; expected less"),
    ("RUN", "echo '0; rm -rf x'", "the device states the exit status '0; rm -rf x'; expected a number"),
    ("RUN", "echo 99999", "the device states the exit status '99999'; expected a number"),
    ("RUN", "echo -1", "the device states the exit status '-1'; expected a number"),
    ("RUN", "exit 0", "the device states the exit status ''; expected a number"),
    ("RUN", "yes", "the device sent more than 1048576 bytes; expected less"),
    ("OUTPUTS", "yes", "the device sent no readable outputs"),
    ("OUTPUTS", "exit 0", "the device sent no readable outputs"),
]


@pytest.mark.parametrize(("script", "answer", "problem"), ANSWERS)
def test_an_answer_that_no_device_gives_is_one_line(
    device: Device,
    shell: HostileShell,
    file: File,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    answer: str,
    problem: str,
) -> None:
    monkeypatch.setattr("modelbuild.devices.device.MOST_OUTPUT", 1 << 16)
    monkeypatch.setattr("modelbuild.devices.device.MOST_FILES", 10)
    shell.instead = {getattr(scripts, script): answer}
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    found = problem_of(device, file, first)
    assert problem in str(found) or (script == "OUTPUTS" and "more than" in str(found))
    # Nothing is left locked.
    shell.instead = {}
    assert job(device, file, second).endswith("right\n")


def test_temperatures_of_a_hostile_device(device: Device, shell: HostileShell) -> None:
    shell.instead = {scripts.STATE: "printf 'temperature.a\\t1\\n\\033[31m\\t2\\nclock.b\\tnan\\nx y\\t3\\n'"}
    with device.session("//:t", 2, hush) as session:
        assert session.state() == {"temperature.a": 1.0}
        shell.instead = {scripts.STATE: "yes"}
        with pytest.raises(JobProblem, match="more than 65536 bytes"):
            session.state()


@pytest.mark.parametrize("years", [-1, 1])
def test_a_clock_that_is_off_by_a_year(device: Device, file: File, tmp_path: Path, years: int) -> None:
    """The times of a store's files and of its lock are of another year than those that are written from now on, as
    after the clock of a device was set. Results are right, the cap holds, and the lock is free."""
    outputs = [tmp_path / f"outputs{number}" for number in range(3)]
    for folder in outputs:
        folder.mkdir()
    root = tmp_path / "device"
    assert job(device, file, outputs[0]).endswith("right\n")
    then = time.time() + years * YEAR
    for path in root.rglob("*"):
        os.utime(path, (then, then))
    assert job(device, file, outputs[1]).endswith("right\n")
    device.runner = replace(device.runner, store_size=1100)
    with device.session("//:t", 2, hush) as session:
        session.put({"run": file("cat data; echo right"), "data": file(b"8" * 1000)})
        assert session.run("one", ["./run"], 5).status == 0
        session.get(outputs[2])
    assert (outputs[2] / "one/stdout").read_text() == "8" * 1000 + "right\n"
    assert sum(path.stat().st_size for path in (root / "blobs").iterdir()) <= 1100
    assert (root / "owner").read_text() == ""
