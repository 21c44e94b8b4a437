"""Refuse reads of undeclared files by Python code in a worker, and record them even if the error is caught.

A Python audit hook (PEP 578) sees every open() of Python code and its caller, so it can raise a precise error. Landlock
cannot do that, but it stops native code.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Callable, Collection, Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any

from modelbuild.execution.isolation.confine import Code
from modelbuild.execution.isolation.environment import DESCRIPTORS
from modelbuild.paths import LOCAL

if TYPE_CHECKING:
    from modelbuild.execution.orders import Read

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

# System folders that libraries search without being asked. Reading them is refused, but a step that handles the refusal
# succeeds, because no action can read these paths.
_QUIET = ("/opt/", "/run/", "/var/", "/boot/", "/snap/", "/dev/")

# Audit events whose first argument is a path to change; in the second set, the last argument is a descriptor of the
# folder that the path is relative to, or -1.
_CHANGES = ("os.setxattr", "os.truncate")
_CHANGES_AT = ("os.chmod", "os.chown", "os.mkdir", "os.remove", "os.rmdir", "os.utime")

# Names of a process's open files.
_DESCRIPTORS = (*DESCRIPTORS, "/proc/self/fd")

_LOOPBACK = (None, "", "localhost", "127.0.0.1", "::1", b"", b"localhost", b"127.0.0.1", b"::1")
_NO_PORT = (None, 0, "", "0", b"", b"0")


class UndeclaredRead(PermissionError):
    """Raised for an undeclared read, with facts about it."""

    fact: Read


class NoNetwork(PermissionError):
    """An action without a network tried to use it."""


class AuditHook:
    """Checks each file that the action opens.

    root       the action's folder, with inputs at their paths in the workspace
    readable   real paths of other readable folders
    writable   writable folders
    code       readable modules of rule packages
    sockets    allowed families of sockets; None for any
    note       called with a fact about each undeclared read
    """

    def __init__(
        self,
        root: str,
        workspace: str,
        readable: Iterable[str],
        writable: Iterable[str],
        code: Code,
        sockets: Collection[int] | None,
        note: Callable[[Read], None],
    ) -> None:
        self.root = root + "/"
        self.workspace = workspace.rstrip("/") + "/"
        self._readable = tuple(path.rstrip("/") + "/" for path in (*readable, *_DESCRIPTORS))
        self._writable = tuple(path.rstrip("/") + "/" for path in (*writable, *_DESCRIPTORS))
        self._code = code
        self._packages = tuple(path.rstrip("/") + "/" for path in code.folders)
        self.sockets = sockets
        self._note = note

    def install(self) -> None:
        """Install the hook until the process ends."""
        checks: dict[str, Callable[..., None]] = dict.fromkeys(_CHANGES, self._change)
        checks |= dict.fromkeys(_CHANGES_AT, self._change_at)
        checks |= {
            "os.rename": self._move,
            "open": self._open,
            "os.listdir": self._list,
            "os.scandir": self._list,
            "ctypes.dlopen": self._load,
        }
        if self.sockets is not None:
            checks |= {"socket.__new__": self._make_socket, "socket.getaddrinfo": self._resolve}

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            if event in checks:
                checks[event](*arguments)

        sys.addaudithook(hook)

    def fact(self, path: str, verb: str, reader: str) -> Read:
        """Return the facts about a read, for an error message."""
        inside = path.startswith(self.workspace)
        shown = path.removeprefix(self.workspace) if inside else path
        declared = inside and os.path.lexists(self.root + shown)
        return {
            "read": shown,
            "inside": inside,
            "declared": declared,
            "verb": verb,
            "reader": reader,
            "module": self._module(path),
            "unseen": not os.path.exists(path),
        }

    def undeclared(self, name: str) -> str | None:
        """Return the path of an unreadable file that a program reports under this name; None for other names. The file
        may not exist."""
        path = self._absolute(name)
        if path.startswith(self.root):
            path = "" if os.path.lexists(path) else self._twin(path)
        elif not path.startswith(self.workspace):
            path = os.path.realpath(path)
        return path if path and not os.path.isdir(path) and not self._may_read(os.path.realpath(path)) else None

    # -- audit events: parameters as in https://docs.python.org/3/library/audit_events.html

    def _open(self, path: Any, mode: str | None, flags: int) -> None:
        if isinstance(path, int):
            return
        name = os.fsdecode(path)
        if flags & _WRITES:
            self._check_write(name)
        elif not flags & os.O_PATH:
            self._check_read(name, "reads", missing=mode is not None and not name.endswith(".pyc"))

    def _list(self, path: Any) -> None:
        if not isinstance(path, int):
            self._check_read(os.fsdecode("." if path is None else path), "lists", missing=True)

    def _load(self, name: Any) -> None:
        if name is not None and "/" in (name := os.fsdecode(name)):
            self._check_read(name, "reads", missing=True)

    def _change(self, path: Any, *_: Any) -> None:
        if not isinstance(path, int):
            self._check_write(os.fsdecode(path))

    def _change_at(self, path: Any, *arguments: Any) -> None:
        # Landlock checks paths relative to an open folder.
        if arguments[-1] == -1:
            self._change(path)

    def _move(self, old: Any, new: Any, old_folder: int, new_folder: int) -> None:
        self._change_at(old, old_folder)
        self._change_at(new, new_folder)

    def _make_socket(self, _: Any, family: int, *rest: Any) -> None:
        # For Unix sockets and for -1 the hook cannot see whether the socket exists already.
        if self.sockets is not None and family not in (-1, socket.AF_UNIX, *self.sockets):
            raise NoNetwork(errno.EACCES, "no network here")

    def _resolve(self, host: Any, port: Any, *_: Any) -> None:
        if host not in _LOOPBACK or port not in _NO_PORT:
            raise NoNetwork(errno.EACCES, f"no network here: {os.fsdecode(host or 'localhost')}:{port}")

    # -- checks --------------------------------------------------------------------------------------------------------

    def _check_read(self, name: str, verb: str, missing: bool) -> None:
        path = self._absolute(name)
        if path.startswith(self.root):
            if missing and not os.path.lexists(path) and (twin := self._twin(path)):
                self._refuse(twin, verb)
        elif not self._may_read(path):
            real = os.path.realpath(path)
            if not self._may_read(real):
                self._refuse(path if path.startswith(self.workspace) else real, verb)

    def _may_read(self, path: str) -> bool:
        if (path + "/").startswith(self._packages):
            return path in self._code.files or not os.path.isfile(path)
        path += "/"
        return path.startswith(self._readable) or path.startswith(self.root)

    def _check_write(self, name: str) -> None:
        path = self._absolute(name) + "/"
        if not path.startswith(self._writable) and not (os.path.realpath(path) + "/").startswith(self._writable):
            raise PermissionError(errno.EACCES, "an action may write only its outputs and temporary files", name)

    def _refuse(self, path: str, verb: str) -> None:
        """Raise an error; return if the file does not exist in this process's view, so that the kernel raises its
        own."""
        frame: FrameType | None = sys._getframe(1)
        reader = ""
        while frame is not None and not reader:
            reader = self.user_file(frame.f_code.co_filename)
            frame = frame.f_back
        fact = self.fact(path, "lists" if os.path.isdir(path) else verb, reader)
        if not path.startswith(_QUIET) or fact["inside"]:
            self._note(fact)
        if not fact["unseen"]:
            error = UndeclaredRead(errno.EACCES, "not a declared input", path)
            error.fact = fact
            raise error

    def _module(self, path: str) -> str:
        """Return the import name of a module of a rule package, given its file; '' for any other file."""
        for folder, package in self._code.folders.items():
            if path.startswith(f"{folder}/") and path.endswith((".py", ".pyc")):
                names = [package, *path.removeprefix(f"{folder}/").partition(".")[0].split("/")]
                return ".".join(name for name in names if name not in ("__init__", "__pycache__"))
        return ""

    def user_file(self, filename: str) -> str:
        """Return the path in the workspace of a code file, if it is an input of the action; else ''."""
        if filename.startswith(self.root):
            return filename.removeprefix(self.root).removeprefix(f"{LOCAL}/")
        relative = filename and filename[0] not in "</" and os.path.isfile(self.root + filename)
        return filename if relative else ""

    def _twin(self, path: str) -> str:
        """Return the path in the workspace of a file or folder that is missing here; '' for a path that cannot be an
        input."""
        relative = path.removeprefix(self.root)
        return self.workspace + relative if relative != path and relative[0] != "." else ""

    def _absolute(self, name: str) -> str:
        path = name if name.startswith("/") else os.path.join(os.getcwd(), name)
        return os.path.normpath(path) if "/." in path or "//" in path else path
