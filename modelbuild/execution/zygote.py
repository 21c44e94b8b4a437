"""The warm parent of workers: imports what actions need once, then forks a fresh child for each action.

A program of its own, started as `python -P zygote.py FD`. It has one thread, so that forking is safe. Over the socket
FD it takes its settings, JSON with its length before it, and then orders, one JSON object a line; it answers each with
how the child ended (see forks.py). When the socket closes, for whatever reason, it kills what runs and ends.
"""

from __future__ import annotations

import errno
import hashlib
import importlib
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, cast

# Comes before the settings: how many bytes they are.
LENGTH = struct.Struct("!I")


# PEP 552: byte code that Python checks against a hash of the source.
_CHECKED_HASH = (0b11).to_bytes(4, "little")


class SourceLoader(SourceFileLoader):
    """Loads a module of a package whose source is in keys. `digest` is the SHA-256 (hex) of the source that it was made
    from. Byte code that holds for a time and size of the source is not used: another source may have them too."""

    digest = ""

    def get_data(self, path: str) -> bytes:
        data = super().get_data(path)
        if path == self.path:
            self.digest = hashlib.sha256(data).hexdigest()
        elif data[4:8] != _CHECKED_HASH:
            raise OSError(errno.EINVAL, "byte code that is not checked by a hash", path)
        return data

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        """Keep no byte code: the engine does, in the one form that is used."""


class PackageFinder:
    """Finds packages (import name -> folder) whose parent folders are not on sys.path, this one's too, and the modules
    in them."""

    def __init__(self, folders: Mapping[str, str]) -> None:
        self.folders = folders

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top, _, below = name.partition(".")
        folder = self.folders.get(top)
        if folder is None:
            return None
        base = f"{folder}/{below.replace('.', '/')}" if below else folder
        for file, places in ((f"{base}/__init__.py", [base]), (f"{base}.py", None)):
            if (places or below) and os.path.isfile(file):
                loader = SourceLoader(name, file)
                return spec_from_file_location(name, file, loader=loader, submodule_search_locations=places)
        if below:
            return None
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [folder]
        return spec


def main(descriptor: int) -> None:
    engine = socket.socket(fileno=descriptor)
    engine.set_inheritable(False)
    finder = PackageFinder({"modelbuild": str(Path(__file__).parents[1])})
    sys.meta_path.insert(0, finder)
    from modelbuild.execution import environment, landlock
    from modelbuild.execution.forks import Forks, die_with_parent
    from modelbuild.execution.worker import ready_to_fork

    die_with_parent(signal.SIGTERM)
    settings = _settings(engine)
    if settings is None:
        return
    os.chdir(settings["scratch"])
    environment.set_variables(settings["variables"])
    sys.path[:] = settings["import_path"]
    finder.folders = settings["packages"]
    landlock.hold((*settings["readable"], *environment.WRITABLE))
    forks = Forks(engine, settings, frozenset(sys.modules))
    for module in settings["preload"]:
        importlib.import_module(module)
    ready_to_fork()
    # From here on the closing socket says that the engine is gone, and leaves time to kill whole process groups.
    die_with_parent(0)
    forks.serve()
    # Not a moment for tearing down what was imported.
    os._exit(0)


def _settings(engine: socket.socket) -> dict[str, Any] | None:
    """None when the engine has ended without a use for this process."""
    length = engine.recv(LENGTH.size, socket.MSG_WAITALL)
    if len(length) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(length)
    return cast("dict[str, Any]", json.loads(engine.recv(size, socket.MSG_WAITALL)))


if __name__ == "__main__":
    main(int(sys.argv[1]))
