"""Run actions on this machine, each in a new child of a fork server and in a separate folder."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

import modelbuild
from modelbuild.actions import Action, ActionResult
from modelbuild.code.byte_code import keep_byte_code
from modelbuild.code.interpreter import Interpreter
from modelbuild.code.search_path import import_path
from modelbuild.code.step_sources import source_file
from modelbuild.errors import EnvironmentProblem
from modelbuild.events import ActionProgress, Reporter, WorkerReady
from modelbuild.execution import network_files
from modelbuild.execution.executor import ActionRequest, Outcome, step_order
from modelbuild.execution.failure_message import failure_message
from modelbuild.execution.fork_server_client import EndedProcess, ForkServer
from modelbuild.execution.isolation import environment
from modelbuild.execution.sandbox import Sandbox, SandboxProblem
from modelbuild.execution.scratch import Scratch
from modelbuild.store.interface import Store
from modelbuild.store.problems import NO_SPACE, no_space

if TYPE_CHECKING:
    from modelbuild.execution.orders import LocalOrder, ServerSettings


@dataclass(frozen=True)
class _Kind:
    """A kind of fork servers: their Python, and the modules that they import."""

    program: str
    python: Interpreter = field(compare=False)
    preload: tuple[str, ...] = ()

    @classmethod
    def of(cls, request: ActionRequest) -> _Kind:
        # A child cannot use a GPU after its parent initialized the driver, as some modules do on import.
        preload = () if request.action.resources.gpu else request.preload
        return cls(request.python.program, request.python, preload)


class LocalExecutor:
    """An Executor. The modules that are loaded in an action do not depend on other actions: each different
    `Action.preload` of a Python has its own fork server, and several if its modules import more if more packages are
    there. A server starts with the first action that needs it, and its modules find the distributions in that action's
    key.

    workspace_root   the workspace; actions see only their declared inputs of it
    scratch          folder for sandboxes, preferably on the store's file system; shared by builds
    rule_packages    folders by import name
    keep_sandboxes   keep the folders of actions for the user
    reporter         receives the progress of running actions
    spare            a fork server without settings, for the first actions; ends with the executor
    namespaces       False: behave as if the kernel refused namespaces
    """

    def __init__(
        self,
        workspace_root: Path,
        store: Store,
        scratch: Path,
        rule_packages: Mapping[str, Path],
        keep_sandboxes: bool = False,
        reporter: Reporter | None = None,
        spare: ForkServer | None = None,
        namespaces: bool = True,
    ) -> None:
        self._workspace = workspace_root.resolve()
        self._store = store
        self._scratch_folder = scratch
        self._packages = {"modelbuild": Path(modelbuild.__file__).parent, **rule_packages}
        self._keep = keep_sandboxes
        self._reporter = reporter
        self._spare = spare
        self._namespaces = namespaces
        self._lock = threading.Lock()
        self._warm: dict[_Kind, list[ForkServer]] = {}
        self._scratch: Scratch | None = None
        self._compiled: set[str] = set()
        self._waiting: dict[ForkServer, list[Action]] = {}  # for modules that it imports
        self._running = 0
        self._closed = False

    def run(self, request: ActionRequest) -> Outcome:
        """Run an action to its end. Raises MissingBlob if the store lost an input, and EnvironmentProblem if the folder
        cannot be made, if it is removed while the action runs, and if the disk is full."""
        with self._lock:
            if self._closed:
                return Outcome(None, "interrupted")
            scratch = self._start()
            self._running += 1
        sandbox = scratch.new()
        try:
            return self._run_in(sandbox, request)
        except SandboxProblem as problem:
            return Outcome(None, str(problem))
        finally:
            scratch.discard(sandbox)
            with self._lock:
                self._running -= 1
                self._clean_up()

    def close(self) -> None:
        """End all processes. Running actions return at once, as interrupted."""
        with self._lock:
            self._closed = True
            servers = [*chain(*self._warm.values()), *([] if self._spare is None else [self._spare])]
            self._warm, self._spare = {}, None
        for process in servers:
            process.close()
        with self._lock:
            self._clean_up()

    def _start(self) -> Scratch:
        if self._scratch is None:
            try:
                self._scratch = Scratch(self._scratch_folder, self._keep)
            except OSError as error:
                raise EnvironmentProblem(f"cannot make a folder for actions: {error}") from error
        return self._scratch

    def _clean_up(self) -> None:
        if self._closed and not self._running and self._scratch is not None:
            self._scratch.close()
            self._scratch = None

    def _run_in(self, sandbox: Sandbox, request: ActionRequest) -> Outcome:
        action = request.action
        try:
            sandbox.lay_out(action, (*request.inputs, *request.local), self._store)
        except OSError as error:
            raise EnvironmentProblem(f"cannot lay out the inputs of {action.owner}: {error}") from error
        try:
            return self._run_step(sandbox, request)
        finally:
            # Checked for any outcome: inputs may have been removed before the step listed them, and outputs afterwards.
            if not self._closed and not sandbox.is_whole():
                problem = f"the inputs of {action.owner} were changed or removed while it was built; build again"
                raise EnvironmentProblem(f"{sandbox.folder}: {problem}")

    def _run_step(self, sandbox: Sandbox, request: ActionRequest) -> Outcome:
        action = request.action
        self._compile(request)
        ended = self._run_in_worker(sandbox, request)
        if self._closed:
            return Outcome(None, "interrupted")
        stdout, stderr = sandbox.printed(self._store)
        problem = failure_message(request, ended, ended.report, self._workspace)
        if not problem:
            try:
                outputs = sandbox.collect(action, self._store)
            except SandboxProblem as error:
                problem = str(error)
        if NO_SPACE in problem:  # from the step, one of its programs, or the store of their output
            raise no_space(sandbox.folder.parent)
        if problem:
            where = f"\n(its folder is kept: {sandbox.folder})" if self._keep else ""
            return Outcome(None, problem + where, stdout, stderr)
        return Outcome(ActionResult(outputs, stdout, stderr, ended.seconds, ended.max_rss), "", stdout, stderr)

    def _run_in_worker(self, sandbox: Sandbox, request: ActionRequest) -> EndedProcess:
        action, kind = request.action, _Kind.of(request)
        for number in count():
            server = self._server(kind, number, request)
            if server is None:
                break
            with self._lock:  # otherwise the server could become ready between the check and the append
                if kind.preload and not server.ready:
                    self._waiting.setdefault(server, []).append(action)
                    self._show(action, f"starting a worker with {kind.preload[0]}", waiting=True)
            ended = server.run(_order(sandbox, request, self._workspace), partial(self._show, action))
            if not ended.unfit:
                return ended
        return EndedProcess(problem="interrupted")

    def _server_ready(self, server: ForkServer, preload: tuple[str, ...], seconds: float) -> None:
        with self._lock:
            waiting = self._waiting.pop(server, [])
        if self._reporter is not None:
            self._reporter.emit(WorkerReady(preload, seconds))
        for action in waiting:
            self._show(action, "", waiting=True)

    def _show(self, action: Action, part: str, waiting: bool = False) -> None:
        if self._reporter is not None:
            self._reporter.emit(ActionProgress(action.id, part, waiting))

    def _compile(self, request: ActionRequest) -> None:
        """Write byte code of a step's modules, once for each step."""
        step = request.action.step
        if step not in self._compiled and not sys.dont_write_bytecode:
            self._compiled.add(step)
            files = (source_file(self._packages, module) for module in request.modules)
            for file in filter(None, files):
                keep_byte_code(file)

    def _server(self, kind: _Kind, number: int, request: ActionRequest) -> ForkServer | None:
        """Return one of a kind's servers, which starts if there are not so many; None if the executor is closed."""
        python = kind.python
        with self._lock:
            if self._closed:
                return None
            servers = self._warm.setdefault(kind, [])
            if number == len(servers) or not servers[number].alive:
                scratch = self._start()
                imports = python.path if python.toolchain else import_path(self._workspace)
                prefixes = (python.prefix, python.base_prefix)
                settings: ServerSettings = {
                    "preload": kind.preload,
                    "distributions": sorted(request.tools),
                    "import_path": imports,
                    "packages": {name: str(path) for name, path in self._packages.items()},
                    "readable": environment.readable(self._workspace, imports, prefixes),
                    "workspace": str(self._workspace),
                    "scratch": str(scratch.path),
                    "namespaces": self._namespaces,
                    "variables": environment.variables(scratch.path, cpus=1, prefix=python.prefix),
                }
                server = self._take_spare(python) or ForkServer(python.program, python.prefix)
                for ended in servers[number : number + 1]:
                    self._waiting.pop(ended, None)  # it ended before it was ready
                servers[number : number + 1] = [server]
                server.begin(settings, partial(self._server_ready, server, kind.preload))
            return servers[number]

    def _take_spare(self, python: Interpreter) -> ForkServer | None:
        """Return the spare fork server if it exists and runs this Python."""
        if self._spare is None or not self._spare.alive or self._spare.program != python.program:
            return None
        spare, self._spare = self._spare, None
        return spare


def _order(sandbox: Sandbox, request: ActionRequest, workspace: Path) -> LocalOrder:
    """Return the order for a worker."""
    order = step_order(request)
    variables = environment.variables(
        sandbox.home, order["cpus"], order["network"], order["gpu"], request.python.prefix
    )
    return {
        **order,
        "env": {**variables, **order["env"]},
        "fetches": _fetches(request.action, workspace) if order["network"] else [],
        "root": str(sandbox.folder),
        "writable": [str(sandbox.outputs), str(sandbox.home)],
        "stdout": str(sandbox.stdout),
        "stderr": str(sandbox.stderr),
        "limit": request.limit.seconds if request.limit is not None else None,
    }


def _fetches(action: Action, workspace: Path) -> list[str]:
    return network_files.readable(workspace, action.params, action.unkeyed)
