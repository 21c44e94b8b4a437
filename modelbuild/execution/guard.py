"""Watches what Python code opens in a worker: what was not declared is refused, and noted even if the error is caught.

A Python audit hook (PEP 578): it sees every open() of Python code, knows who asked, and can say it well. Native code is
kept out by Landlock, which can do neither.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from types import FrameType, ModuleType
from typing import Any

from modelbuild.paths import LOCAL

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

# System folders that libraries look into on their own account. Reading there is refused, but whoever copes with that
# has not failed: what is never readable can't matter.
_QUIET = ("/opt/", "/run/", "/var/", "/boot/", "/snap/")

# Audit events whose first argument is a path of which something changes; in the second set, the last is a descriptor
# of the folder that the path is relative to, or -1.
_CHANGES = ("os.setxattr", "os.truncate")
_CHANGES_AT = ("os.chmod", "os.chown", "os.mkdir", "os.remove", "os.rmdir", "os.utime")

_IMPORT_SYSTEM = ("<frozen importlib", importlib.__file__)

_LOOPBACK = (None, "", "localhost", "127.0.0.1", "::1", b"", b"localhost", b"127.0.0.1", b"::1")


class UndeclaredRead(PermissionError):
    """`fact` says what was read, and by whom (see Guard.fact)."""

    fact: dict[str, Any]


class NoNetwork(PermissionError):
    """An action that may not use the network tried to."""


class Guard:
    """Knows what the action may open.

    root       the action's own folder, where inputs lie under their path in the workspace
    readable   real paths of other folders that may be read
    writable   folders that may be written
    code       real paths of rule packages, where only modules may be read: they are in a key, other files are not
    note       is given a fact about each undeclared read
    """

    def __init__(
        self,
        root: str,
        workspace: str,
        readable: Iterable[str],
        writable: Iterable[str],
        code: Iterable[str],
        note: Callable[[dict[str, Any]], None],
    ) -> None:
        self.root = root + "/"
        self.workspace = workspace.rstrip("/") + "/"
        self._readable = tuple(path.rstrip("/") + "/" for path in readable)
        self._writable = tuple(path.rstrip("/") + "/" for path in writable)
        self._code = tuple(path.rstrip("/") + "/" for path in code)
        self._note = note
        self._imports: dict[str, str] = {}
        self._checks: dict[str, Callable[..., None]] = {}

    def install(self, network: bool) -> None:
        """Watch until release()."""
        checks = self._checks
        checks |= dict.fromkeys(_CHANGES, self._change)
        checks |= dict.fromkeys(_CHANGES_AT, self._change_at)
        checks |= {
            "os.rename": self._move,
            "open": self._open,
            "os.listdir": self._list,
            "os.scandir": self._list,
            "ctypes.dlopen": self._load,
        }
        if not network:
            checks |= {
                "socket.connect": self._connect,
                "socket.sendto": self._connect,
                "socket.getaddrinfo": self._resolve,
            }
        sys.meta_path.insert(0, self)

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            if event in checks:
                checks[event](*arguments)

        sys.addaudithook(hook)

    def release(self) -> None:
        """Watch no longer. Python keeps the hook, with nothing to do."""
        self._checks.clear()
        sys.meta_path.remove(self)

    def fact(self, path: str, verb: str, reader: str) -> dict[str, Any]:
        """What the engine needs to say it well: the path read, relative to the workspace if `inside` it; whether it is
        `declared` there (and only the way of reading it is wrong); the reader, a file of the user's or ''."""
        inside = path.startswith(self.workspace)
        shown = path.removeprefix(self.workspace) if inside else path
        declared = inside and os.path.lexists(self.root + shown)
        return {"read": shown, "inside": inside, "declared": declared, "verb": verb, "reader": reader}

    def undeclared(self, name: str) -> str | None:
        """The real path of an existing file that may not be read, for what a program says it could not read."""
        path = self._absolute(name)
        if path.startswith(self.root):
            path = "" if os.path.lexists(path) else self._twin(path) or ""
        path = os.path.realpath(path) if path else ""
        return path if path and os.path.isfile(path) and not self._may_read(path) else None

    def third_party(self) -> dict[str, str]:
        """Top-level modules that files of the user's imported from elsewhere, and which file did so first. Only those
        that were not loaded yet: what the step itself uses is among its tools."""
        elsewhere = {}
        for top, importer in self._imports.items():
            module = sys.modules.get(top)
            places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
            if module is not None and not any(place and place.startswith(self.root) for place in places):
                elsewhere[top] = importer
        return elsewhere

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        """Finds no module, but sees who imports what for the first time (PEP 451)."""
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in self._imports:
            frame: FrameType | None = sys._getframe(1)
            while frame is not None and frame.f_code.co_filename.startswith(_IMPORT_SYSTEM):
                frame = frame.f_back
            if frame is not None and (importer := self.user_file(frame.f_code.co_filename)):
                self._imports[top] = importer

    # -- what the hook calls: parameters as in https://docs.python.org/3/library/audit_events.html

    def _open(self, path: Any, mode: str | None, flags: int) -> None:
        if isinstance(path, int):
            return
        name = os.fsdecode(path)
        if flags & _WRITES:
            self._check_write(name)
        elif not flags & os.O_PATH:
            self._check_read(name, missing=mode is not None and not name.endswith(".pyc"))

    def _list(self, path: Any) -> None:
        if not isinstance(path, int):
            self._check_read(os.fsdecode("." if path is None else path), missing=True)

    def _load(self, name: Any) -> None:
        if name is not None and "/" in (name := os.fsdecode(name)):
            self._check_read(name, missing=True)

    def _change(self, path: Any, *_: Any) -> None:
        if not isinstance(path, int):
            self._check_write(os.fsdecode(path))

    def _change_at(self, path: Any, *arguments: Any) -> None:
        # What is relative to an open folder is left to Landlock.
        if arguments[-1] == -1:
            self._change(path)

    def _move(self, old: Any, new: Any, old_folder: int, new_folder: int) -> None:
        self._change_at(old, old_folder)
        self._change_at(new, new_folder)

    def _connect(self, _: Any, address: Any) -> None:
        if isinstance(address, tuple) and isinstance(address[0], str):
            raise NoNetwork(errno.EACCES, f"no network here: {address[0]}:{address[1]}")

    def _resolve(self, host: Any, port: Any, *_: Any) -> None:
        if host not in _LOOPBACK:
            raise NoNetwork(errno.EACCES, f"no network here: {os.fsdecode(host)}:{port}")

    # -- may it? -----------------------------------------------------------------------------------------------------

    def _check_read(self, name: str, missing: bool) -> None:
        path = self._absolute(name)
        if path.startswith(self.root):
            twin = self._twin(path) if missing and not os.path.lexists(path) else None
            if twin is not None:
                self._refuse(twin)
        elif not self._may_read(path):
            real = os.path.realpath(path)
            if os.path.exists(real) and not self._may_read(real):
                self._refuse(real)

    def _may_read(self, path: str) -> bool:
        if path.startswith(self._code) and not path.endswith((".py", ".pyc")) and os.path.isfile(path):
            return False
        path += "/"
        return path.startswith(self._readable) or path.startswith(self.root)

    def _check_write(self, name: str) -> None:
        path = self._absolute(name) + "/"
        if not path.startswith(self._writable) and not (os.path.realpath(path) + "/").startswith(self._writable):
            raise PermissionError(errno.EACCES, "an action may write only its outputs and temporary files", name)

    def _refuse(self, path: str) -> None:
        frame: FrameType | None = sys._getframe(1)
        reader = ""
        while frame is not None and not reader:
            reader = self.user_file(frame.f_code.co_filename)
            frame = frame.f_back
        fact = self.fact(path, "lists" if os.path.isdir(path) else "reads", reader)
        if not path.startswith(_QUIET) or fact["inside"]:
            self._note(fact)
        error = UndeclaredRead(errno.EACCES, "not a declared input", path)
        error.fact = fact
        raise error

    def user_file(self, filename: str) -> str:
        """The path in the workspace of a file of code, if it is an input of the action; else ''."""
        if filename.startswith(self.root):
            return filename.removeprefix(self.root).removeprefix(f"{LOCAL}/")
        relative = filename and filename[0] not in "</" and os.path.isfile(self.root + filename)
        return filename if relative else ""

    def _twin(self, path: str) -> str | None:
        """Where in the workspace a file or folder lies that is missing here."""
        relative = path.removeprefix(self.root)
        twin = self.workspace + relative
        return twin if relative != path and relative[0] != "." and os.path.exists(twin) else None

    def _absolute(self, name: str) -> str:
        path = name if name.startswith("/") else os.path.join(os.getcwd(), name)
        return os.path.normpath(path) if "/." in path or "//" in path else path
