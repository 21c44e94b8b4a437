"""Commands that tests run, each in a process of its own, and their results."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODELBUILD = (sys.executable, "-m", "modelbuild")


@dataclass(frozen=True)
class Ended:
    """The exit code and the output of a command that ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The standard output of a command with --json, parsed."""
        return json.loads(self.out)

    @property
    def statuses(self) -> dict[str, str]:
        """The status of each action by its id, after a build with --json."""
        return {action["id"]: action["status"] for action in self.json["actions"]}

    @property
    def errors(self) -> list[str]:
        """The lines of standard error that report an error."""
        return [line for line in self.err.splitlines() if line.startswith("error: ")]

    @property
    def nothing_to_do(self) -> bool:
        return "Nothing to do" in self.out


@dataclass(frozen=True)
class Running:
    """A command that was started. It writes its output to files in `log`, so it never waits for a reader."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def over(self) -> bool:
        return self.process.poll() is not None

    @property
    def out(self) -> str:
        """The standard output so far."""
        return (self.log / "out").read_text()

    @property
    def err(self) -> str:
        """The standard error so far."""
        return (self.log / "err").read_text()

    def send(self, kind: signal.Signals) -> None:
        self.process.send_signal(kind)

    def kill(self) -> None:
        """Kill the command alone, as the kernel does when memory runs out; the processes it started get no signal."""
        self.process.kill()
        self.process.wait()

    def wait(self) -> Ended:
        """Wait for the end of the command. Kills it if the test is interrupted or takes too long."""
        try:
            code = self.process.wait()
        except BaseException:
            self.kill()
            raise
        return Ended(code, self.out, self.err)


def start(command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path) -> Running:
    """Start a command in a folder, without standard input; its output goes to files in the new folder `log`."""
    log.mkdir(parents=True)
    with (log / "out").open("wb") as out, (log / "err").open("wb") as err:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
    return Running(process, log)
