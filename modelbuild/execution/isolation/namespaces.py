"""Views of the machine for actions: mount namespaces, which Linux allows every user inside a user namespace.

In a view /dev/shm is empty and private to the view. A hidden view contains only the system, the folders that actions
may read, and the action's own folder; so it contains no sockets of other processes.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild.code.search_path import under
from modelbuild.execution.isolation.environment import DESCRIPTORS, DEVICES, SHARED_MEMORY, SYSTEM, without
from modelbuild.execution.isolation.system_calls import (
    CLONE_FS,
    CLONE_NEWNS,
    CLONE_NEWUSER,
    MS_BIND,
    MS_NOATIME,
    MS_NODEV,
    MS_NOSUID,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    mount,
    setns,
    unshare,
)

if TYPE_CHECKING:
    from modelbuild.execution.orders import WorkerSettings

_PLAIN = MS_NOSUID | MS_NODEV
_OWN = "/proc/self/ns/mnt"


@dataclass(frozen=True, slots=True)
class View:
    """A view, as a descriptor; None for a process's original view."""

    descriptor: int | None = None

    def __bool__(self) -> bool:
        return self.descriptor is not None

    def join(self) -> None:
        """Move this process into the view, and close it. The current folder becomes /."""
        if self.descriptor is not None:
            setns(self.descriptor, CLONE_NEWNS)
            self.close()

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)


@dataclass(frozen=True, slots=True)
class _Made:
    """A reusable view: its namespace and shared memory, as descriptors, and the initial state of the memory."""

    namespace: int
    memory: int
    first: tuple[int, ...]

    def view(self) -> View:
        return View(os.dup(self.namespace))

    def is_unused(self) -> bool:
        """Return whether the shared memory is unchanged: creating files in it, or setting its mode or attributes,
        changes its ctime, which no program can set back."""
        return self.first == _state(self.memory)

    def close(self) -> None:
        os.close(self.namespace)
        os.close(self.memory)


class Views:
    """Makes views, in a process with one thread, which moves to a new user namespace. If the kernel refuses that,
    raises OSError and leaves the process unusable; call refusal() before.

    scratch   the folder that contains actions' folders
    shown     real paths in hidden views
    names     other names of these paths; hidden views also contain the symbolic links on the way
    """

    def __init__(self, scratch: str, shown: Iterable[str], names: Iterable[str]) -> None:
        shown = [part for path in shown for part in without(path, [scratch])]
        if in_dev := [path for path in shown if under(path, "/dev")]:
            raise OSError(f"actions read {in_dev[0]}, and get a /dev of their own")
        self._scratch = scratch
        self._made: dict[str, _Made] = {}
        _enter_user_namespace()
        self._whole = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
        unshare(CLONE_NEWNS)
        _hide(scratch, shown, dict(link for name in (scratch, *names) for link in _links(name)))
        self._hidden = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
        setns(self._whole, CLONE_NEWNS)

    def whole(self) -> View:
        """Make a view that hides nothing. The current folder becomes /."""
        with closing(self._make(self._whole, lambda: None)) as made:
            return made.view()

    def hidden(self, folder: str = "") -> View:
        """Return a hidden view with this folder of an action, if any. The current folder becomes /.

        A folder's view is reused for the next action in the folder if it is unused: making and removing a view takes a
        third of the time of a fork.
        """
        if not folder:
            with closing(self._make(self._hidden, lambda: self._show_only(folder))) as alone:
                return alone.view()
        made = self._made.get(folder)
        if made is None or not made.is_unused():
            if made is not None:
                made.close()
            made = self._made[folder] = self._make(self._hidden, lambda: self._show_only(folder))
        return made.view()

    def close(self) -> None:
        """Close the descriptors, in a child: views that processes joined stay."""
        for made in self._made.values():
            made.close()
        os.close(self._whole)
        os.close(self._hidden)

    def _make(self, of: int, change: Callable[[], None]) -> _Made:
        # The kernel refuses another view to a process with several threads, which modules may have started.
        unshare(CLONE_FS)
        if of != self._whole:
            setns(of, CLONE_NEWNS)
        try:
            unshare(CLONE_NEWNS)
            if os.path.isdir(SHARED_MEMORY):
                mount("tmpfs", SHARED_MEMORY, "tmpfs", _PLAIN | MS_NOATIME, "mode=1777")
            change()
            memory = os.open(SHARED_MEMORY if os.path.isdir(SHARED_MEMORY) else "/", os.O_RDONLY | os.O_CLOEXEC)
            return _Made(os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC), memory, _state(memory))
        finally:
            setns(self._whole, CLONE_NEWNS)

    def _show_only(self, folder: str) -> None:
        """Cover the folders of all actions but one."""
        with ExitStack() as opened:
            if folder:
                descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
                opened.callback(os.close, descriptor)
            mount("tmpfs", self._scratch, "tmpfs", _PLAIN, "mode=0755")
            if folder:
                os.mkdir(folder)
                mount(f"/proc/self/fd/{descriptor}", folder, "", MS_BIND)
            mount("", self._scratch, "", MS_REMOUNT | MS_BIND | MS_RDONLY | _PLAIN)


def _state(memory: int) -> tuple[int, ...]:
    found = os.fstat(memory)
    return found.st_ctime_ns, found.st_mtime_ns, found.st_mode, found.st_nlink, found.st_size


def views(settings: WorkerSettings, *more: str) -> Views | None:
    """Return an object that makes views for actions with common settings (see orders.py); hidden views also contain the
    paths in `more`. None if the kernel refuses views."""
    packages = settings["packages"].values()
    names = (sys.executable, sys.prefix, sys.base_prefix, *settings["import_path"], *packages)
    shown = (*settings["readable"], *map(os.path.realpath, (*packages, *more)))
    scratch = os.path.realpath(settings["scratch"])
    return None if refusal(scratch, shown, names) else Views(scratch, shown, names)


def refusal(scratch: str, shown: Iterable[str] = (), names: Iterable[str] = ()) -> str:
    """Return the reason why this machine refuses views; '' if it allows them. Tries to make a view in a child."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            Views(scratch, shown, names).hidden().join()
            status = 0
        except OSError as error:
            refused = error.errno in (errno.EPERM, errno.EACCES, errno.ENOSPC, errno.ENOSYS)
            why = f"user namespaces are not allowed here, {error.strerror}" if refused else error.strerror or str(error)
            os.write(write, why.encode())
        finally:
            os._exit(status)
    os.close(write)
    with open(read, "rb") as answer:
        why = answer.read().decode()
    _, status = os.waitpid(child, 0)
    return why or ("" if status == 0 else f"the attempt ended with status {status}")


def _enter_user_namespace() -> None:
    user, group = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER | CLONE_NEWNS)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path("/proc/self", name).write_text(text)


def _hide(scratch: str, shown: list[str], links: dict[str, str]) -> None:
    """Cover all folders at the root of this mount namespace except the system's, and mount the shown folders again."""
    whole = {*map(os.path.realpath, SYSTEM), *shown}
    with os.scandir("/") as entries:
        covered = [e.path for e in entries if e.is_dir(follow_symlinks=False) and e.path not in whole]
    if under(scratch, "/dev") or not any(under(os.path.dirname(scratch), folder) for folder in covered):
        raise OSError(f"{scratch} is in a folder of the system")
    outermost = [path for path in shown if not any(path != other and under(path, other) for other in shown)]
    with ExitStack() as opened:
        kept = {}
        for path in (scratch, *outermost, *DEVICES):
            if os.path.exists(path) and any(under(path, folder) for folder in covered):
                kept[path] = os.open(path, os.O_PATH | os.O_CLOEXEC)
                opened.callback(os.close, kept[path])
        for folder in covered:
            mount("tmpfs", folder, "tmpfs", _PLAIN, "mode=0755")
        for path, descriptor in kept.items():
            _make(path, stat.S_ISDIR(os.fstat(descriptor).st_mode))
            mount(f"/proc/self/fd/{descriptor}", path, "", MS_BIND | MS_REC)
    os.mkdir(SHARED_MEMORY)
    for link, target in (links | DESCRIPTORS).items():
        if any(under(link, folder) for folder in covered) and not os.path.lexists(link):
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.symlink(target, link)
    for folder in covered:
        mount("", folder, "", MS_REMOUNT | MS_BIND | MS_RDONLY | _PLAIN)


def _make(path: str, folder: bool) -> None:
    os.makedirs(path if folder else os.path.dirname(path), exist_ok=True)
    if not folder:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))


def _links(name: str) -> Iterator[tuple[str, str]]:
    """Yield the symbolic links on a path, each with its destination."""
    reached = ""
    ahead = name.split("/")[::-1]
    for _ in range(1000):
        if not ahead:
            return
        part = ahead.pop()
        if part == "..":
            reached = os.path.dirname(reached)
        elif part not in ("", "."):
            reached += f"/{part}"
            if os.path.islink(reached):
                target = os.readlink(reached)
                yield reached, target
                ahead += target.split("/")[::-1]
                reached = "" if target.startswith("/") else os.path.dirname(reached)
