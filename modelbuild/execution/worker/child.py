"""The child that runs one step, from the fork to its end."""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from modelbuild.execution.isolation import confine, landlock
from modelbuild.execution.isolation.environment import set_variables
from modelbuild.execution.isolation.leftover_processes import adopt
from modelbuild.execution.isolation.namespaces import View
from modelbuild.execution.isolation.system_calls import drop_capabilities
from modelbuild.execution.worker import step_failure
from modelbuild.execution.worker.audit_hook import AuditHook
from modelbuild.execution.worker.streams import Streams
from modelbuild.paths import LOCAL
from modelbuild.step import Step

if TYPE_CHECKING:
    from modelbuild.execution.orders import CompletedSettings, End, Order, Read


@dataclass(frozen=True, slots=True)
class LoadedStep:
    """The modules that are already imported in a new worker: the modules of `packages` except `ours`, which were
    imported before any action or preload, and the module imported `last`. A worker does not iterate over all modules,
    because iterating would write to them, and copy the memory that it shares with its parent."""

    packages: Collection[str]
    ours: frozenset[str]
    modules: frozenset[str]
    last: str

    @classmethod
    def now(cls, packages: Collection[str], ours: frozenset[str]) -> LoadedStep:
        names = list(sys.modules)
        return cls(packages, ours, frozenset(_of(packages, names)) - ours, names[-1])

    def strays(self, known: Collection[str]) -> list[str]:
        """Return the imported modules of `packages` that are not in the step's key; `known` modules are."""
        since = takewhile(lambda name: name != self.last, reversed(sys.modules))
        return sorted((self.modules | set(_of(self.packages, since))) - self.ours - set(known))


def _changed(modules: Mapping[str, str]) -> list[str]:
    """Return the modules among `modules` (SHA-256 by import name) that were imported, here or in a parent, from another
    source. A remote worker imports the source that it received, which is not compared."""
    specs = ((name, getattr(sys.modules.get(name), "__spec__", None)) for name in modules)
    return [n for n, spec in specs if getattr(getattr(spec, "loader", None), "digest", modules[n]) != modules[n]]


def _of(packages: Collection[str], modules: Iterable[str]) -> Iterator[str]:
    return (name for name in modules if name.partition(".")[0] in packages)


def ready_to_fork() -> None:
    """Do the common part of all workers' setup, in their parent."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    # Only the engine handles Ctrl-C: a fork server is in a separate session.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o022)
    faulthandler.enable()
    # When memory runs out, the kernel should kill these processes rather than the engine.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")


def work(
    order: Order,
    settings: CompletedSettings,
    loaded: LoadedStep,
    code: confine.Code,
    streams: Streams,
    view: View,
) -> NoReturn:
    """Run the step and exit the process. The report has one JSON object per line; the last object has the key "end".

    view       the action's view of the machine
    """
    os.setpgid(0, 0)
    adopt()
    worker = os.getpid()
    status = 1

    def note(fact: Read | End) -> None:
        os.write(streams.report, json.dumps(fact).encode() + b"\n")

    try:
        limits = confine.of_action(order, settings, code, bool(view))
        view.join()
        readable = (*settings["readable"], *order["fetches"], *limits.write)
        hook = AuditHook(order["root"], settings["workspace"], readable, limits.write, code, limits.sockets, note)
        _set_up(order, streams)
        limits.impose()
        landlock.release()
        drop_capabilities()
        hook.install()
        only_of_users(hook.user_file, loaded.packages)
        end = _run(order, hook, streams)
        if os.getpid() == worker:
            modules = order["modules"]
            note({**end, "changed": _changed(modules), "strays": loaded.strays(modules)})
            status = 0
    except Exception as error:
        note({"end": "internal", "text": f"{type(error).__name__}: {error}"})
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)


def _set_up(order: Order, streams: Streams) -> None:
    for number, descriptor in ((1, streams.stdout), (2, streams.stderr)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(order["root"])
    set_variables(order["env"])
    if order["local"]:
        # Also for the step's programs.
        os.environ["PYTHONPATH"] = f"{order['root']}/{LOCAL}"
        sys.path.insert(0, os.environ["PYTHONPATH"])
    # The parent may write byte code of its imports; a worker has no place for it.
    sys.dont_write_bytecode = True
    loaded: Mapping[str, Any] = sys.modules
    if "tempfile" in loaded:
        loaded["tempfile"].tempdir = None
    if "torch" in loaded:
        loaded["torch"].set_num_threads(order["cpus"])


def _run(order: Order, hook: AuditHook, streams: Streams) -> End:
    root = Path(order["root"])
    step = Step(
        params=order["params"],
        inputs={name: tuple(root / path for path in paths) for name, paths in order["inputs"].items()},
        outputs={name: root / path for name, path in order["outputs"].items()},
        root=root,
        cpus=order["cpus"],
        show=streams.show,
    )
    try:
        importlib.import_module(order["step"]).run(step)
    except BaseException as error:
        return step_failure.end(error, hook)
    return {"end": "done"}


def only_of_users(user_file: Callable[[str], str], packages: Collection[str]) -> None:
    """Show a warning only if a function of the user is being called: in a file for which `user_file` returns a path, or
    in a rule package among `packages` that is not modelbuild's."""
    show = warnings.showwarning
    own = frozenset(packages) - {"modelbuild", "modelbuild_rules"}

    def is_users(frame: FrameType) -> bool:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        return package in own or bool(user_file(frame.f_code.co_filename))

    def shown(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not is_users(frame):
            frame = frame.f_back
        if frame is not None or user_file(filename):
            show(message, category, filename, lineno, file, line)

    warnings.showwarning = shown
