"""Runs actions on this machine: each in a fresh child of a server process, in a folder of its own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import modelbuild
from modelbuild.actions import Action, ActionResult
from modelbuild.code.byte_code import keep_byte_code
from modelbuild.code.search_path import import_path
from modelbuild.code.step_sources import source_file
from modelbuild.errors import EnvironmentProblem
from modelbuild.execution import network_files
from modelbuild.execution.executor import Outcome, Request
from modelbuild.execution.failure_message import failure_message
from modelbuild.execution.fork_server_client import ForkServer
from modelbuild.execution.isolation import environment
from modelbuild.execution.sandbox import Sandbox, SandboxProblem
from modelbuild.execution.scratch import Scratch
from modelbuild.paths import OUTPUTS
from modelbuild.store.interface import Store
from modelbuild.store.problems import NO_SPACE, no_space


class LocalExecutor:
    """An Executor. There is one server process for each different `Action.preload`, so that what an action finds loaded
    does not depend on which actions ran before it; it starts with the first action that needs it.

    workspace_root   the workspace; actions see none of it but their declared inputs
    scratch          folder for sandboxes, best on one file system with the store; shared by builds
    rule_packages    import name -> folder
    keep_sandboxes   leave the folders of actions for the user to look at
    spare            a server process that has not begun, for the first actions; ends with the executor
    namespaces       False to do without, as where the kernel refuses them
    """

    def __init__(
        self,
        workspace_root: Path,
        store: Store,
        scratch: Path,
        rule_packages: Mapping[str, Path],
        keep_sandboxes: bool = False,
        spare: ForkServer | None = None,
        namespaces: bool = True,
    ) -> None:
        self._workspace = workspace_root.resolve()
        self._store = store
        self._scratch_folder = scratch
        self._packages = {"modelbuild": Path(modelbuild.__file__).parent, **rule_packages}
        self._keep = keep_sandboxes
        self._spare = spare
        self._namespaces = namespaces
        self._lock = threading.Lock()
        self._warm: dict[tuple[str, ...], ForkServer] = {}
        self._scratch: Scratch | None = None
        self._compiled: set[str] = set()
        self._running = 0
        self._closed = False

    def run(self, request: Request) -> Outcome:
        """Run an action to its end. Raises MissingBlob when the store lost an input, EnvironmentProblem when the folder
        cannot be made, or is removed while the action runs, and when the disk is full."""
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
        """End every process. Actions that run come back at once, as interrupted."""
        with self._lock:
            self._closed = True
            server = [*self._warm.values(), *([] if self._spare is None else [self._spare])]
            self._warm, self._spare = {}, None
        for process in server:
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

    def _run_in(self, sandbox: Sandbox, request: Request) -> Outcome:
        action = request.action
        try:
            sandbox.lay_out(action, (*request.inputs, *request.local), self._store)
        except OSError as error:
            raise EnvironmentProblem(f"cannot lay out the inputs of {action.owner}: {error}") from error
        try:
            return self._run_step(sandbox, request)
        finally:
            # Whatever came of it: inputs may have been gone before the step listed them, and outputs after.
            if not self._closed and not sandbox.is_whole():
                problem = f"the inputs of {action.owner} were changed or removed while it was built; build again"
                raise EnvironmentProblem(f"{sandbox.folder}: {problem}")

    def _run_step(self, sandbox: Sandbox, request: Request) -> Outcome:
        action = request.action
        self._compile(request)
        # A child cannot use a GPU that its parent has looked at, as some modules do when they are imported.
        server = self._warm_for(() if action.resources.gpu else request.preload)
        if server is None:
            return Outcome(None, "interrupted")
        ended = server.run(_order(sandbox, request, self._workspace))
        if self._closed:
            return Outcome(None, "interrupted")
        stdout, stderr = sandbox.printed(self._store)
        problem = failure_message(request, ended, ended.report, self._workspace)
        if not problem:
            try:
                outputs = sandbox.collect(action, self._store)
            except SandboxProblem as error:
                problem = str(error)
        if NO_SPACE in problem:  # whoever says it: the step, what it runs, or whoever keeps what that printed
            raise no_space(sandbox.folder.parent)
        if problem:
            where = f"\n(its folder is kept: {sandbox.folder})" if self._keep else ""
            return Outcome(None, problem + where, stdout, stderr)
        return Outcome(ActionResult(outputs, stdout, stderr, ended.seconds, ended.max_rss), "", stdout, stderr)

    def _compile(self, request: Request) -> None:
        """Once for each step."""
        step = request.action.step
        if step not in self._compiled and not sys.dont_write_bytecode:
            self._compiled.add(step)
            files = (source_file(self._packages, module) for module in request.modules)
            for file in filter(None, files):
                keep_byte_code(file)

    def _warm_for(self, preload: tuple[str, ...]) -> ForkServer | None:
        with self._lock:
            if self._closed:
                return None
            server = self._warm.get(preload)
            if server is None or not server.alive:
                scratch = self._start()
                imports = import_path(self._workspace)
                settings = {
                    "preload": preload,
                    "import_path": imports,
                    "packages": {name: str(path) for name, path in self._packages.items()},
                    "readable": environment.readable(self._workspace, imports),
                    "workspace": str(self._workspace),
                    "scratch": str(scratch.path),
                    "namespaces": self._namespaces,
                    "variables": environment.variables(scratch.path, cpus=1),
                }
                spare, self._spare = self._spare, None
                server = self._warm[preload] = spare if spare is not None and spare.alive else ForkServer()
                server.begin(settings)
            return server


def _order(sandbox: Sandbox, request: Request, workspace: Path) -> dict[str, Any]:
    """Return the order that a worker does (see worker/child.py)."""
    action = request.action
    inputs: dict[str, list[str]] = {}
    for item in request.inputs:
        inputs.setdefault(item.name, []).append(item.path)
    cpus, gpu = action.resources.cpu, bool(action.resources.gpu)
    return {
        "step": action.step,
        "params": {**action.params, **action.unkeyed},
        "inputs": inputs,
        "outputs": {output.name: f"{OUTPUTS}/{output.path}" for output in action.outputs},
        "cpus": cpus,
        "network": action.network,
        "gpu": gpu,
        "fetches": _fetches(action, workspace) if action.network else [],
        "modules": dict(request.modules),
        "local": bool(request.local),
        "env": environment.variables(sandbox.home, cpus, action.network, gpu) | dict(action.env),
        "root": str(sandbox.folder),
        "writable": [str(sandbox.outputs), str(sandbox.home)],
        "stdout": str(sandbox.stdout),
        "stderr": str(sandbox.stderr),
    }


def _fetches(action: Action, workspace: Path) -> list[str]:

    return network_files.readable(workspace, action.params, action.unkeyed)
