"""Ways to reach a device, and their addresses: `local:`, `qemu:aarch64` and `ssh://user@host:port?key=...`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

from modelbuild.errors import UsageError, did_you_mean
from modelbuild.lines import is_line, shown

RunnerKind: TypeAlias = Literal["local", "ssh", "qemu", "command"]

# Kinds of runners with an address; rule packages declare runners of commands.
KINDS = tuple(kind for kind in get_args(RunnerKind) if kind != "command")
ARCHITECTURES = ("aarch64", "x86_64")
EXPECTED = "expected local:, qemu:ARCH or ssh://[USER@]HOST[:PORT]"

# Bytes of the files that are kept on a device.
STORE_SIZE = 8 << 30

# Excludes text that ssh could take for an option, or a shell for a command.
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}|[0-9A-Fa-f:.]{2,45}(%[A-Za-z0-9]+)?")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}")
_JUMP = re.compile(r"(?:(?P<user>[^@]*)@)?(?P<host>[^@:\[\]]*|\[(?P<v6>[^@\[\]]*)\])(?::(?P<port>[0-9]{1,5}))?")
_PORTS = range(1, 1 << 16)
_QUERY = ("key", "known_hosts", "jump", "folder")


@dataclass(frozen=True, slots=True)
class DeviceRunner:
    """A way to reach a device. Raises ValueError for values that ssh or a shell could misunderstand.

    name         its label, or the address of `--runner`
    arch         qemu: the architecture to emulate
    host         ssh: as OpenSSH's client takes it, like `user`, `port` and `jump`; '' and 0 for its defaults
    key          ssh: path of a private key; '' for the keys of ssh-agent and of OpenSSH's configuration
    known_hosts  ssh: path of the file with the host's key; '' for OpenSSH's files
    folder       the device's folder for files and jobs, relative to the home folder; '' for the default
    store_size   maximum bytes of files on the device
    command      command: a program of this machine and its first arguments. With one more argument, a shell's command
                 line, it runs that on the device, with its own standard streams, and ends with the exit status there,
                 or 255 without a connection. A program with a `/` is relative to the workspace
    check        command: a program and its arguments, which succeeds while the device is connected, and else prints the
                 reason in its last line. () if only exit status 255 shows a lost connection
    """

    name: str
    kind: RunnerKind
    arch: str = ""
    host: str = ""
    user: str = ""
    port: int = 0
    jump: str = ""
    key: str = ""
    known_hosts: str = ""
    folder: str = ""
    store_size: int = STORE_SIZE
    command: tuple[str, ...] = ()
    check: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.kind == "command") != bool(self.command) or (self.check and not self.command):
            raise ValueError("expected a command for a runner of kind 'command', and for no other")
        for word in (*self.command, *self.check):
            if not is_line(word):
                raise ValueError(f"{shown(word)} in a command; expected one line")
        if self.kind == "ssh" and not _HOST.fullmatch(self.host):
            raise ValueError(f"{shown(self.host)} is not a host; expected a name or an IP address")
        if self.user and not _USER.fullmatch(self.user):
            raise ValueError(f"{shown(self.user)} is not a user's name")
        self.jumps()
        for path in (self.key, self.known_hosts, self.folder):
            if not is_line(path) or '"' in path or path.startswith("-"):
                raise ValueError(f"{shown(path)} is not a path; expected a path without quotes")

    def jumps(self) -> tuple[tuple[str, str, int], ...]:
        """Return the user, the host and the port of each jump host; '' and 0 for ssh's defaults."""
        found = []
        for text in self.jump.split(",") if self.jump else ():
            hop = _JUMP.fullmatch(text)
            user, host, port = ("", "", "") if hop is None else (hop["user"], hop["v6"] or hop["host"], hop["port"])
            if (
                not _HOST.fullmatch(host)
                or (user is not None and not _USER.fullmatch(user))
                or int(port or 1) not in _PORTS
            ):
                raise ValueError(f"{shown(text)} is not a jump host; expected [USER@]HOST[:PORT]")
            found.append((user or "", host, int(port or 0)))
        return tuple(found)

    @property
    def address(self) -> str:
        """Return its address, without options; for a command, its words."""
        if self.kind == "command":
            return " ".join(self.command)
        if self.kind != "ssh":
            return f"{self.kind}:{self.arch}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"ssh://{self.user}{'@' * bool(self.user)}{host}{f':{self.port}' if self.port else ''}"


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A declared device: its runners, architecture ('' for any) and compute capabilities."""

    runners: tuple[DeviceRunner, ...]
    arch: str
    compute_capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceJob:
    """The part of an action that runs on a device, before the action's step.

    The device gets the action's inputs called `inputs`, each in a folder of that name. Above these, it runs the
    commands of `commands.json` in the input `plan`, a list of {"name": ..., "argv": [...]}; each writes files to
    `out/NAME`. The step gets them as the input `device`, with a file `device.json` (see
    modelbuild/devices/executor.py). `seconds` limits all commands; neither it nor `spec` is in a key.
    """

    label: str
    spec: DeviceSpec
    inputs: tuple[str, ...]
    plan: str
    seconds: float


def parse_runner(text: str) -> tuple[str, DeviceRunner]:
    """Parse `LABEL=ADDRESS`; return the label as text, and the runner. Raises UsageError for any other text."""
    label, equals, address = text.partition("=")
    if not equals or not label or not address:
        raise UsageError(f"{shown(text)}: expected LABEL=ADDRESS, such as //:orin=ssh://user@host")
    return label, parse_address(address)


def parse_address(text: str) -> DeviceRunner:
    """Parse an address. Raises UsageError for a malformed address."""
    kind, colon, rest = text.partition(":")
    if not colon or kind not in KINDS:
        hint = did_you_mean(kind, KINDS) if colon else ""
        raise UsageError(f"{shown(text)} is not the address of a device; {EXPECTED}{hint}")
    if kind == "ssh":
        return _ssh(text)
    name, _, query = rest.partition("?")
    if kind == "local" and name:
        raise UsageError(f"{shown(text)}: expected local:, without a host")
    if kind == "qemu" and name not in ARCHITECTURES:
        raise UsageError(f"{shown(text)}: expected qemu:{' or qemu:'.join(ARCHITECTURES)}")
    return _made(text, cast("RunnerKind", kind), _options(text, query, ("folder",)) | {"arch": name})


def _ssh(text: str) -> DeviceRunner:
    from urllib.parse import unquote, urlsplit  # 5 ms, which builds without devices need not spend

    try:
        parts = urlsplit(text)
        port, user, host = parts.port or 0, unquote(parts.username or ""), parts.hostname or ""
    except ValueError:
        raise UsageError(f"{shown(text)}: expected ssh://[USER@]HOST[:PORT], with a port up to 65535") from None
    if parts.password is not None:
        raise UsageError("the address of a device with a password; expected ssh://[USER@]HOST, and a key")
    if not text.startswith("ssh://") or not host or parts.path.strip("/") or parts.fragment:
        raise UsageError(f"{shown(text)}: expected ssh://[USER@]HOST[:PORT]")
    # urlsplit makes a host's letters small; a name in ssh's configuration may have capitals.
    given = re.search(re.escape(host), text.removeprefix("ssh://").rpartition("@")[2], re.IGNORECASE)
    options = _options(text, parts.query, _QUERY)
    return _made(text, "ssh", options | {"host": given[0] if given else host, "user": user}, port)


def _made(text: str, kind: RunnerKind, options: dict[str, str], port: int = 0) -> DeviceRunner:
    try:
        return DeviceRunner(text, kind, port=port, **options)  # type: ignore[arg-type]  # none of them is store_size
    except ValueError as error:
        raise UsageError(f"{shown(text)}: {error}") from None


def _options(text: str, query: str, known: tuple[str, ...]) -> dict[str, str]:
    from urllib.parse import parse_qsl

    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in options:
        if name not in known:
            expected = did_you_mean(name, known) or f"; expected {', '.join(known)}"
            raise UsageError(f"{shown(text)}: no option {shown(name)}{expected}")
    return options
