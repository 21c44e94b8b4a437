"""Four ways to run a shell script: on this machine, on this machine with an emulator for its programs, and on another
machine by ssh or by a command."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from modelbuild.device_runners import DeviceRunner
from modelbuild.devices.problems import DeviceProblem, cut, ssh_problem

# Seconds: to wait for a connection, and between queries to a silent host, which may leave three unanswered.
_CONNECT = 10
_ALIVE = 5
_ENDING = 5

# Stands for ssh's `[%h]:%p` while the words around it are quoted and their percent signs are doubled.
_TARGET = "HOST-AND-PORT"

# The loader of each architecture's C library, and the folders that may contain it: of Debian's foreign architecture,
# and of Debian's cross compiler.
_LOADERS = {"aarch64": "lib/ld-linux-aarch64.so.1", "x86_64": "lib64/ld-linux-x86-64.so.2"}
_SYSROOTS = ("/", "/usr/{arch}-linux-gnu")


class Shell(Protocol):
    """Runs POSIX shell scripts on one device until it is closed.

    prefix    the beginning of a command that runs a program of the device's architecture
    emulator  the emulator of its processor and the emulator's version; '' for a real processor
    """

    prefix: tuple[str, ...]
    emulator: str

    def start(self, script: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a script with pipes for its standard streams. Exit status 255: the connection failed."""

    def lost(self) -> str:
        """Return why the connection ended, in one line; '' if it is open."""

    def close(self) -> None:
        """End the connection."""


def open_shell(runner: DeviceRunner) -> Shell:
    """Return a shell on a device. Raises DeviceProblem if it cannot be reached."""
    if runner.kind == "ssh":
        return SshShell(runner)
    if runner.kind == "command":
        return CommandShell(runner)
    return QemuShell(runner.arch) if runner.kind == "qemu" else LocalShell()


class LocalShell:
    """Scripts on this machine."""

    prefix: tuple[str, ...] = ()
    emulator = ""

    def start(self, script: str, *arguments: str) -> subprocess.Popen[bytes]:
        return _start(["sh", "-c", script, "modelbuild", *arguments])

    def lost(self) -> str:
        return ""

    def close(self) -> None:
        """Do nothing."""


class QemuShell(LocalShell):
    """Scripts on this machine, whose programs of another architecture qemu's user mode runs."""

    def __init__(self, arch: str) -> None:
        emulator = shutil.which(f"qemu-{arch}") or shutil.which(f"qemu-{arch}-static")
        sysroots = (root.format(arch=arch) for root in _SYSROOTS)
        sysroot = next((root for root in sysroots if Path(root, _LOADERS[arch]).exists()), None)
        if arch == platform.machine():
            return
        if emulator is None or sysroot is None:
            package = f"libc6-{'arm64' if arch == 'aarch64' else 'amd64'}-cross"
            raise DeviceProblem(f"no qemu-{arch} with a C library here; expected Debian's qemu-user and {package}")
        self.prefix = (emulator, "-L", sysroot)
        asked = subprocess.run([emulator, "--version"], capture_output=True, text=True, check=False, timeout=_CONNECT)
        self.emulator = next(iter(asked.stdout.splitlines()), Path(emulator).name)


class CommandShell:
    """Scripts on a device that a program of this machine reaches, such as adb. Each script is a process of that
    program."""

    prefix: tuple[str, ...] = ()
    emulator = ""

    def __init__(self, runner: DeviceRunner) -> None:
        self._runner = runner
        for command in (runner.command, runner.check):
            if command and shutil.which(command[0]) is None:
                raise DeviceProblem(f"no {command[0]} on this machine; expected the program that {runner.name} names")
        problem = self.lost()
        if problem:
            raise DeviceProblem(problem)

    def start(self, script: str, *arguments: str) -> subprocess.Popen[bytes]:
        return _start([*self._runner.command, _shell_line(script, *arguments)])

    def lost(self) -> str:
        if not self._runner.check:
            return ""
        name = Path(self._runner.check[0]).name
        try:
            ended = subprocess.run(
                self._runner.check, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_CONNECT
            )
        except (OSError, subprocess.TimeoutExpired):
            return f"{name} does not answer"
        lines = (ended.stdout + ended.stderr).decode(errors="replace").strip().splitlines()
        return "" if ended.returncode == 0 else cut(lines[-1]) if lines else f"{name} finds no device"

    def close(self) -> None:
        """Do nothing."""


class SshShell:
    """Scripts on another machine by the system's OpenSSH client, all over one connection."""

    prefix: tuple[str, ...] = ()
    emulator = ""

    def __init__(self, runner: DeviceRunner) -> None:
        if shutil.which("ssh") is None:
            raise DeviceProblem("no ssh on this machine; expected OpenSSH's client (Debian's openssh-client)")
        for path, what in ((runner.key, "key"), (runner.known_hosts, "known_hosts")):
            if path and not os.access(Path(path).expanduser(), os.R_OK):
                raise DeviceProblem(f"the {what} {path} cannot be read; expected a file")
        self._runner = runner
        # Short: the path of a Unix socket has at most 107 bytes.
        self._folder = Path(tempfile.mkdtemp(prefix="modelbuild-ssh-", dir="/tmp"))
        self._socket = self._folder / "c"
        self._log = self._folder / "log"
        with self._log.open("wb") as log:
            # ssh reads a pipe of this process, so it ends when this process ends for any reason.
            given = [*_options(runner), *_through_jumps(runner)]
            to = _destination(runner.user, runner.host, runner.port)
            command = ["ssh", "-M", "-S", str(self._socket), *given, *to, "exec cat"]
            self._master = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=_environment(),
                start_new_session=True,
            )
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        deadline = time.monotonic() + 3 * _CONNECT
        while not self._socket.exists():
            if self._master.poll() is not None or time.monotonic() > deadline:
                raise DeviceProblem(self._problem() if self._master.poll() is not None else "the host does not answer")
            time.sleep(0.02)

    def _problem(self) -> str:
        if not self._log.exists():
            return "it was closed"
        return ssh_problem(self._runner, self._log.read_bytes()[-4096:].decode(errors="replace"))

    def start(self, script: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = _shell_line(script, *arguments)
        # Without the connection, ssh would open a new connection; the proxy prevents it.
        through = ["-S", str(self._socket), "-o", "ControlMaster=no", "-o", "ProxyCommand=false"]
        to = _destination(self._runner.user, self._runner.host, self._runner.port)
        return _start(["ssh", *through, *_options(self._runner), *to, command], _environment())

    def lost(self) -> str:
        return "" if self._master.poll() is None else self._problem()

    def close(self) -> None:
        assert self._master.stdin is not None
        self._master.stdin.close()
        self._master.terminate()
        try:
            self._master.wait(_ENDING)
        except subprocess.TimeoutExpired:
            self._master.kill()
            self._master.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def _shell_line(script: str, *arguments: str) -> str:
    """Return a shell's command line that runs a script."""
    return "exec " + shlex.join(["sh", "-c", script, "modelbuild", *arguments])


def _options(runner: DeviceRunner) -> list[str]:
    """Return ssh's options for a runner. They precede the options of the user's configuration."""
    given = [
        "BatchMode=yes",
        "StrictHostKeyChecking=yes",
        f"ConnectTimeout={_CONNECT}",
        f"ServerAliveInterval={_ALIVE}",
        "ServerAliveCountMax=3",
        "ForwardAgent=no",
        "ForwardX11=no",
        "ClearAllForwardings=yes",
        "PermitLocalCommand=no",
        "RequestTTY=no",
        "RemoteCommand=none",
        "LogLevel=ERROR",
        "EscapeChar=none",
    ]
    if runner.known_hosts:
        path = Path(runner.known_hosts).expanduser()
        given += [f'UserKnownHostsFile="{path}"', "GlobalKnownHostsFile=none", "UpdateHostKeys=no"]
    if runner.key:
        given.append("IdentitiesOnly=yes")
    flags = [part for option in given for part in ("-o", option)]
    return [*flags, "-i", str(Path(runner.key).expanduser())] if runner.key else flags


def _destination(user: str, host: str, port: int) -> list[str]:
    return [*(["-p", str(port)] if port else []), *(["-l", user] if user else []), "--", host]


def _through_jumps(runner: DeviceRunner) -> list[str]:
    """Return ssh's options for its jump hosts. With -J, jump hosts would get none of the runner's options."""
    command = ""
    for user, host, port in runner.jumps():
        before = ["-o", f"ProxyCommand={command}"] if command else []
        words = ["ssh", "-S", "none", *_options(runner), *before, "-W", _TARGET, *_destination(user, host, port)]
        # In its value, %% is a percent sign.
        command = shlex.join(words).replace("%", "%%").replace(_TARGET, "[%h]:%p")
    return ["-o", f"ProxyCommand={command}"] if command else []


def _environment() -> dict[str, str]:
    """Return the environment of ssh, in which its messages are in English and it never prompts."""
    return {**os.environ, "LC_ALL": "C", "SSH_ASKPASS_REQUIRE": "never"}


def _start(command: list[str], environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a script's process here, if it runs, and close its pipes."""
    if process.poll() is None:
        process.kill()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    process.wait()
