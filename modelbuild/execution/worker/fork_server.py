"""The fork server: import the modules that actions need once, then fork a new child for each action.

This program is started as `python -P -s -S fork_server.py FD PREFIX`; PREFIX is the folder of the Python's environment.
It has one thread, so that forking is safe. From the socket FD it reads its settings, JSON preceded by its length, and
then orders, one JSON object per line. The answer to an order describes the child's end (see order_loop.py). When the
socket closes, the fork server kills all children and exits.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import site
import socket
import struct
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from modelbuild.execution.orders import ServerSettings

# Precedes the settings: their number of bytes.
LENGTH = struct.Struct("!I")

# Maximum number of folders kept open for Landlock rules; a folder of packages may contain too many.
_HELD = 100


def main(descriptor: int, prefix: str) -> None:
    # Normally done by `site`, which -S leaves out.
    sys.prefix = sys.exec_prefix = prefix
    site.setquit()
    engine = socket.socket(fileno=descriptor)
    engine.set_inheritable(False)
    packages = _package_finder(Path(__file__).parents[2])
    sys.meta_path.insert(0, packages)
    from modelbuild.execution.isolation import confine, environment, landlock, namespaces
    from modelbuild.execution.worker.child import ready_to_fork
    from modelbuild.execution.worker.keyed_finder import InstalledModules, KeyedFinder
    from modelbuild.execution.worker.order_loop import OrderLoop, die_with_parent

    die_with_parent(signal.SIGTERM)
    settings = _settings(engine)
    if settings is None:
        return
    environment.set_variables(settings["variables"])
    sys.path[:] = settings["import_path"]
    packages.folders = settings["packages"]
    installed = InstalledModules(settings["import_path"])
    finder = KeyedFinder(installed, installed.of(settings["distributions"]))
    finder.install()
    # This module is __main__ here; formatting a stack reads its source under its own name.
    ours = frozenset((*sys.modules, "modelbuild.execution.worker.fork_server"))
    views = namespaces.views(settings) if settings["namespaces"] else None
    os.chdir(settings["scratch"])
    completed = confine.completed(settings)
    landlock.hold((*completed["around"][:_HELD], *environment.DEVICES))
    forks = OrderLoop(engine, completed, ours, finder, views)
    gc.disable()  # nearly all objects of imported modules are kept
    for module in settings["preload"]:
        importlib.import_module(module)
    ready_to_fork()
    # From here on, a closed socket shows that the engine has ended, which leaves time to kill whole process groups.
    die_with_parent(0)
    forks.serve()
    # Skip the teardown of imported modules.
    os._exit(0)


def _package_finder(modelbuild: Path) -> Any:
    """Return the finder of modelbuild's modules, which must exist before any of them is imported."""
    name = "modelbuild.code.package_finder"
    spec = spec_from_file_location(name, modelbuild / "code/package_finder.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PackageFinder({"modelbuild": str(modelbuild)})


def _settings(engine: socket.socket) -> ServerSettings | None:
    """Read the settings; return None if the engine ended without using this process."""
    length = engine.recv(LENGTH.size, socket.MSG_WAITALL)
    if len(length) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(length)
    return cast("ServerSettings", json.loads(engine.recv(size, socket.MSG_WAITALL)))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
