"""The command line, started as a child of this process or as a program of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.powerless import give_up_power

MODELBUILD = (sys.executable, "-m", "modelbuild")

_PATH = tuple(sys.path)  # before a test adds to it


@dataclass(frozen=True)
class Ended:
    """What came of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def statuses(self) -> dict[str, str]:
        """Each action's status by its id, of a build with --json."""
        return {action["id"]: action["status"] for action in self.json["actions"]}

    @property
    def errors(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("error: ")]

    @property
    def nothing_to_do(self) -> bool:
        return "Nothing to do" in self.out


class Forked:
    """A child of this process that does some work, with what Running uses of a Popen."""

    def __init__(self, work: Callable[[], int], out: int, err: int) -> None:
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            code = 70
            try:
                os.setsid()
                for number, file in ((0, os.open(os.devnull, os.O_RDONLY)), (1, out), (2, err)):
                    os.dup2(file, number)
                code = work()
            except BaseException:
                os.write(2, traceback.format_exc().encode())
            finally:
                os._exit(code)

    def poll(self, options: int = os.WNOHANG) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self) -> int | None:
        return self.poll(0)


@dataclass(frozen=True)
class Running:
    """A command that was started. Its output goes to files in a folder, so that it never waits for a reader."""

    process: Forked | subprocess.Popen[bytes]
    folder: Path

    @property
    def over(self) -> bool:
        return self.process.poll() is not None

    def send(self, kind: signal.Signals) -> None:
        os.kill(self.process.pid, kind)

    def kill(self) -> None:
        """As the kernel does when memory runs out: the command itself, without a word to what it started."""
        self.send(signal.SIGKILL)
        self.process.wait()

    def wait(self) -> Ended:
        try:
            code = self.process.wait()
        except BaseException:  # of a test that takes too long
            self.kill()
            raise
        assert code is not None
        return Ended(code, self.log("out"), self.log("err"))

    def log(self, name: str) -> str:
        """All of "out" or "err" so far."""
        return (self.folder / name).read_text()


def start_program(command: Sequence[str], cwd: Path, environment: Mapping[str, str], log: Path) -> Running:
    """Start a program."""
    log.mkdir(parents=True)
    with (log / "out").open("wb") as out, (log / "err").open("wb") as err:
        process = subprocess.Popen(
            command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
        return Running(process, log)


def start_child(
    arguments: Sequence[str], cwd: Path, environment: Mapping[str, str], log: Path, powerless: bool
) -> Running:
    """Start the command line in a child that finds the engine imported."""
    _import_engine()
    log.mkdir(parents=True)

    def work() -> int:
        if powerless:
            give_up_power()
        os.chdir(cwd)
        return _invoke(arguments, environment)

    with (log / "out").open("wb") as out, (log / "err").open("wb") as err:
        return Running(Forked(work, out.fileno(), err.fileno()), log)


def _import_engine() -> None:
    """Import what commands import, before one is forked: that takes longer than a small build."""
    import modelbuild.build.execute
    import modelbuild.build.plan
    import modelbuild.cli.build
    import modelbuild.cli.cache
    import modelbuild.cli.clean
    import modelbuild.cli.commands  # noqa: F401


def _invoke(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the command line in this process as in one of its own; its exit code."""
    from modelbuild.cli import invoke

    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["modelbuild", *arguments]
    sys.path[:] = _PATH
    sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("_pytest")]
    sys.dont_write_bytecode = False
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False, errors="backslashreplace")  # noqa: SIM115
    try:
        return invoke(arguments)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
