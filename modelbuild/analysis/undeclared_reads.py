"""Refuse what the code of rule packages reads while it is imported and called. No key and no record of a build contains
such a read, so the next build would not notice a change.

A Python audit hook (PEP 578) sees files, folders, programs and sockets. os.environ, os.stat() and os.access() raise no
audit event, so they are replaced. Code of modelbuild, and imports, may read: records contain the files of all modules.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import pydantic

import modelbuild
from modelbuild.code.search_path import import_path
from modelbuild.errors import LoadingError, Location


class _Expected(StrEnum):
    """The declarations that replace a read."""

    FILE = "an attribute of type Source, and a step that reads the file"
    FOLDER = "an attribute of type Sources, which takes a glob"
    VARIABLE = "an attribute"
    PROGRAM = "an action whose step runs the program"
    NETWORK = "an action with network=True"


class UndeclaredRead(LoadingError):
    """A read of a rule package, at its place."""


class _Refused(PermissionError):
    """Raised for a read in the code that reads."""


class _Thread(threading.local):
    """`refused`: the errors of reads that were refused in this thread; None if reads are not refused."""

    refused: list[UndeclaredRead] | None = None


class _Watch:
    """The code whose reads are refused: modules of the rule packages in the folders `packages`, and all modules except
    modelbuild's, Python's own and installed ones. Paths end with a slash."""

    def __init__(self) -> None:
        self.root = Path()
        self.packages: tuple[str, ...] = ()
        self.installed: tuple[str, ...] = ()
        self.engine: tuple[str, ...] = ()


_thread = _Thread()
_watch = _Watch()


def watch(root: Path, own: Iterable[Path]) -> None:
    """Refuse reads in the rule packages of a workspace, from now on; `own` are folders of modelbuild's packages."""
    if not _watch.engine:
        _install()
    _watch.root = root
    # pydantic has settings in the environment, which it reads while a module declares attributes. importlib.metadata
    # reads only what records contain of Python's import folders.
    ours = (Path(module.__path__[0]) for module in (modelbuild, pydantic))
    _watch.engine = ("<frozen importlib", *_folders(*ours, *own, Path(importlib.__file__).parent / "metadata"))
    _watch.installed = _folders(*map(Path, import_path(root)))


def watch_package(folder: Path) -> None:
    """Refuse reads in a rule package that is installed."""
    _watch.packages = tuple({*_watch.packages, *_folders(folder)})


@contextmanager
def refused_reads() -> Iterator[None]:
    """Refuse reads in rule packages in this thread. Raises UndeclaredRead for the first read, even if the code handled
    the refusal."""
    before, _thread.refused = _thread.refused, [] if _watch.engine else None
    refused = _thread.refused
    try:
        yield
    except (Exception, SystemExit) as error:
        if refused:
            raise refused[0] from error
        raise
    finally:
        _thread.refused = before
    if refused:
        raise refused[0]


def _folders(*folders: Path) -> tuple[str, ...]:
    return tuple(f"{folder}/" for folder in folders)


# -- the checks ------------------------------------------------------------------------------------------------------


def _check(subject: str, expected: _Expected, path: str = "") -> None:
    """Refuse a read if a rule package's code makes it. `subject` describes the read of the file or folder at `path`."""
    refused, _thread.refused = _thread.refused, None
    try:
        frame = _reader()
        if refused is None or frame is None or (path and _may_read(path)):
            return
        if os.path.isdir(path):
            subject, expected = f"lists {_shown(path)}", _Expected.FOLDER
        where = _location(frame)
        when = "while rules are analysed, so no later build would notice a change"
        refused.append(UndeclaredRead(f"{subject} {when}; expected {expected}", where))
        raise _Refused(str(refused[-1]))
    finally:
        _thread.refused = refused


def _reader() -> FrameType | None:
    """Return the innermost frame of a rule package or of a local module; None for a read by modelbuild or an import."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_watch.packages):
            return frame
        if file != __file__ and file.startswith(_watch.engine):
            return None
        if not file.startswith((*_watch.installed, "<")) and file != __file__:
            return frame
        frame = frame.f_back
    return None


def _location(frame: FrameType) -> Location:
    line, _, column, _ = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    return Location(_shown(frame.f_code.co_filename), line or frame.f_lineno, (column or 0) + 1)


def _shown(path: str) -> str:
    return path.removeprefix(f"{_watch.root}/")


def _may_read(path: str) -> bool:
    """Return whether a record contains the state of a path: installed distributions, modules that were imported, and
    the folders of rule packages."""
    if path.startswith(_watch.installed) or path.startswith(_watch.engine):
        return True
    files = (vars(module).get("__file__") for module in list(sys.modules.values()) if hasattr(module, "__dict__"))
    modules = [file for file in files if isinstance(file, str)]
    if path in modules:
        return True
    return os.path.isdir(path) and any(file == f"{path}/__init__.py" for file in modules)


def _check_path(path: Any = None, *_: Any, verb: str = "reads") -> None:
    if not isinstance(path, int):
        absolute = os.path.abspath(os.fsdecode("." if path is None else path))
        _check(f"{verb} {_shown(absolute)}", _Expected.FILE, absolute)


def _check_open(path: Any, mode: str | None, flags: int) -> None:
    if flags & os.O_ACCMODE != os.O_WRONLY:
        _check_path(path)


def _check_program(program: Any = "a program", *_: Any) -> None:
    name = program if isinstance(program, (str, bytes, os.PathLike)) else "a program"
    _check(f"runs {os.fsdecode(name)}", _Expected.PROGRAM)


def _check_network(*_: Any) -> None:
    _check("uses the network", _Expected.NETWORK)


# Parameters as in https://docs.python.org/3/library/audit_events.html
_CHECKS: dict[str, Callable[..., None]] = {
    "open": _check_open,
    **dict.fromkeys(("os.listdir", "os.scandir", "os.getxattr", "os.listxattr", "sqlite3.connect"), _check_path),
    **dict.fromkeys(("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"), _check_program),
    **dict.fromkeys(("os.fork", "os.forkpty"), _check_program),
    **dict.fromkeys(("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"), _check_network),
    **dict.fromkeys(("socket.gethostname", "socket.gethostbyaddr", "socket.bind"), _check_network),
}


def _install() -> None:
    """Install the checks until the process ends."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if _thread.refused is not None and event in _CHECKS:
            _CHECKS[event](*arguments)

    sys.addaudithook(hook)
    for name in ("stat", "access"):
        _replace(name)
    for variables in (os.environ, os.environb):
        variables.__class__ = _Variables


def _replace(name: str) -> None:
    """Replace a function of `os` by one that checks its path."""
    function = getattr(os, name)

    @functools.wraps(function)
    def checked(path: Any, *arguments: Any, **named: Any) -> Any:
        if _thread.refused is not None:
            _check_path(path, verb="looks for")
        return function(path, *arguments, **named)

    for able in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
        if function in able:
            able.add(checked)
    setattr(os, name, checked)


class _Variables(os._Environ[Any]):
    """os.environ, with checks."""

    def __getitem__(self, key: Any) -> Any:
        if _thread.refused is not None:
            _check(f"reads the environment variable {os.fsdecode(key)}", _Expected.VARIABLE)
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[Any]:
        if _thread.refused is not None:
            _check("reads the environment", _Expected.VARIABLE)
        return super().__iter__()
