"""Drop a process's rights before it runs a step, permanently and for all its child processes."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelbuild.execution.isolation import landlock, seccomp
from modelbuild.execution.isolation.environment import SHARED_MEMORY, devices, without
from modelbuild.execution.isolation.system_calls import CLONE_NEWNET, unshare

if TYPE_CHECKING:
    from modelbuild.execution.orders import CompletedSettings, Order, StepOrder, WorkerSettings

# Families of sockets for communication among an action's processes.
_OWN = frozenset((socket.AF_UNIX,))


@dataclass(frozen=True, slots=True)
class Code:
    """The modules of rule packages that a step may read: the modules in its key, and the modules imported before it.

    folders   import names of the packages by their real paths
    files     the possible files of the modules, sources and byte code: another build may write byte code at any time
    present   the files that existed at first. The kernel refuses other files, and Python then compiles the source
    """

    folders: Mapping[str, str]
    files: frozenset[str]
    present: tuple[str, ...]

    @classmethod
    def of(cls, modules: Iterable[str], packages: Mapping[str, str]) -> Code:
        """Return the code for import names of modules, and folders of packages by import name."""
        folders = {name: os.path.realpath(folder) for name, folder in packages.items()}
        tag = sys.implementation.cache_tag
        files = []
        for module in modules:
            top, _, below = module.partition(".")
            if top in folders:
                base = "/".join([folders[top], *below.split(".")]) if below else folders[top]
                parent, _, name = base.rpartition("/")
                files += [f"{base}.py", f"{parent}/__pycache__/{name}.{tag}.pyc"]
                files += [f"{base}/__init__.py", f"{base}/__pycache__/__init__.{tag}.pyc"]
        present = tuple(filter(os.path.exists, files))
        return cls({folder: name for name, folder in folders.items()}, frozenset(files), present)


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """The rights that a process keeps. `read` and `write` are paths of files and folders; `listed` are
    folders of which only names may be read. `sockets` are families, None for any."""

    read: tuple[str, ...]
    listed: tuple[str, ...]
    write: tuple[str, ...]
    sockets: frozenset[int] | None

    def impose(self) -> None:
        """Drop all other rights."""
        if self.sockets == _OWN and not landlock.knows_scopes():
            # Unix sockets without a path are visible in the whole network namespace.
            unshare(CLONE_NEWNET)
        landlock.restrict(self.read, self.write, self.sockets is None, self.listed)
        seccomp.refuse(self.sockets)


def of_action(order: Order, settings: CompletedSettings, code: Code, view: bool) -> ProcessLimits:
    """Return the limits of a worker; `view`: whether it is in a view."""
    network, gpu = order["network"], order["gpu"]
    write = (*order["writable"], *devices(gpu), *([SHARED_MEMORY] if view else []))
    read = (*settings["around"], *order["fetches"], *code.present, order["root"])
    return ProcessLimits(
        read, (*settings["readable"], *code.folders), write, _sockets(network, gpu, view and is_hidden(order))
    )


def is_hidden(order: StepOrder) -> bool:
    """Return whether an action's view is hidden. Programs that fetch, and drivers of GPUs, may need more."""
    return not order["network"] and not order["gpu"]


def completed(settings: WorkerSettings) -> CompletedSettings:
    """Return settings with `around`: the readable folders, without rule packages in these folders."""
    packages = [os.path.realpath(path) for path in settings["packages"].values()]
    around = [part for path in settings["readable"] for part in without(path, packages)]
    return {**settings, "around": around}


def _sockets(network: bool, gpu: bool, hidden: bool) -> frozenset[int] | None:
    if network:
        return None
    if gpu:
        # The services of GPU drivers are not documented.
        return frozenset((socket.AF_UNIX, socket.AF_NETLINK))
    return _OWN if hidden else frozenset()
