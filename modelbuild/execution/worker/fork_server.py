"""The fork server: imports once what actions need, then forks a fresh child for each action.

A program of its own, started as `python -P fork_server.py FD`. It has one thread, so that forking is safe. From the
socket FD it reads its settings, JSON with its length before it, and then orders, one JSON object a line. The answer to
an order says how the child ended (see order_loop.py). When the socket closes, it kills all children and ends.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import struct
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, cast

# Comes before the settings: how many bytes they are.
LENGTH = struct.Struct("!I")

# Folders to keep open for rules of Landlock; all of a folder of packages could be too many.
_HELD = 100


def main(descriptor: int) -> None:
    engine = socket.socket(fileno=descriptor)
    engine.set_inheritable(False)
    finder = _package_finder(Path(__file__).parents[2])
    sys.meta_path.insert(0, finder)
    from modelbuild.execution.isolation import confine, environment, landlock, namespaces
    from modelbuild.execution.worker.child import ready_to_fork
    from modelbuild.execution.worker.order_loop import OrderLoop, die_with_parent

    die_with_parent(signal.SIGTERM)
    settings = _settings(engine)
    if settings is None:
        return
    environment.set_variables(settings["variables"])
    sys.path[:] = settings["import_path"]
    finder.folders = settings["packages"]
    # This one is called __main__. Whoever formats a stack reads its source.
    ours = frozenset((*sys.modules, "modelbuild.execution.worker.fork_server"))
    views = namespaces.views(settings) if settings["namespaces"] else None
    os.chdir(settings["scratch"])
    settings = confine.completed(settings)
    landlock.hold((*settings["around"][:_HELD], *environment.DEVICES))
    forks = OrderLoop(engine, settings, ours, views)
    for module in settings["preload"]:
        importlib.import_module(module)
    ready_to_fork()
    # From here on the closing socket says that the engine is gone, and leaves time to kill whole process groups.
    die_with_parent(0)
    forks.serve()
    # Not a moment for tearing down what was imported.
    os._exit(0)


def _package_finder(modelbuild: Path) -> Any:
    """Return the finder of modelbuild's modules, which has to be there before any of them can be imported."""
    name = "modelbuild.code.package_finder"
    spec = spec_from_file_location(name, modelbuild / "code/package_finder.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PackageFinder({"modelbuild": str(modelbuild)})


def _settings(engine: socket.socket) -> dict[str, Any] | None:
    """None when the engine has ended without a use for this process."""
    length = engine.recv(LENGTH.size, socket.MSG_WAITALL)
    if len(length) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(length)
    return cast("dict[str, Any]", json.loads(engine.recv(size, socket.MSG_WAITALL)))


if __name__ == "__main__":
    main(int(sys.argv[1]))
