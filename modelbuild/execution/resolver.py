"""The resolver: turns an action and its inputs into a request, which contains everything that its key and its executor
use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from modelbuild.actions import Action, Digest, FileEntry, StagedInput
from modelbuild.code import interpreter as python
from modelbuild.code.corrected_requirements import corrections
from modelbuild.code.installed_contents import InstalledContents
from modelbuild.code.local_contents import Files, LocalContents
from modelbuild.code.step_sources import StepCode, imports, source_file
from modelbuild.code.tools import Needed, Tools, foreign, imported_modules
from modelbuild.device_runners import DeviceJob
from modelbuild.errors import BuildError
from modelbuild.execution.executor import ActionRequest
from modelbuild.execution.gpus import visible
from modelbuild.execution.keys import local_path
from modelbuild.execution.time_limit import TimeLimit
from modelbuild.store.digests import digest_bytes

Identity: TypeAlias = Callable[[DeviceJob], Mapping[str, str]]
# Returns the Python that the actions of a target, by its id, run in.
Pythons: TypeAlias = Callable[[str], python.Interpreter]

# Returns the time that an action may run, or None.
Limits: TypeAlias = Callable[[Action], TimeLimit | None]


class _Environment:
    """The packages of one Python: tools, and the distributions that they find, by content."""

    def __init__(self, workspace: Path, packages: Mapping[str, Path], files: Files, used: python.Interpreter) -> None:
        self.tools = Tools(workspace, packages, used, corrections(packages))
        self.installed = InstalledContents(self.tools.distributions, lambda path: files.entry(path)[1])


class Resolver:
    """Makes requests.

    code       the code of steps
    workspace  the folder that local modules are imported from
    blob       reads an input that another action made, to find its imports
    files      contents of files
    gpus       models of GPUs, for actions that use a GPU, if this machine has none
    pythons    returns the Python that the actions of a target run in
    identity   returns the identity of the device of a job, for actions with a part that runs on a device; empty if no
               device is there
    limit      returns the time that an action may run, or None
    """

    def __init__(
        self,
        code: StepCode,
        workspace: Path,
        blob: Callable[[Digest], bytes],
        files: Files,
        gpus: Sequence[str] = (),
        pythons: Pythons = lambda toolchain: python.installed(),
        identity: Identity = lambda job: {},
        limit: Limits = lambda action: None,
    ) -> None:
        self._code = code
        self._blob = blob
        self._local = LocalContents(files)
        self._make = partial(_Environment, workspace, code.roots, files)
        self._pythons = pythons
        self._gpus = tuple(gpus)
        self._identity = identity
        self._limit = limit
        self._environments: dict[str, _Environment] = {}
        self._lock = threading.Lock()
        self._imported: dict[Digest, frozenset[str]] = {}

    def resolve(self, action: Action, inputs: Sequence[StagedInput]) -> ActionRequest:
        """Return an action's request. Raises EnvironmentProblem for a missing tool, and BuildError for a Python input
        that changed."""
        used = self._pythons(action.toolchain)
        environment = self._environment(used)
        needed = self._needed(action, inputs, environment.tools)
        local = self._local.staged(needed.local)
        return ActionRequest(
            action,
            tuple(inputs),
            tools=environment.installed.states(needed.distributions),
            code=self._code.digest(*action.modules),
            modules=self._code.modules(*action.modules),
            local=local,
            keyed_local=_unstated(environment.installed, needed.beside, local),
            preload=self._preload(action, needed, environment.tools),
            gpus=(visible() or self._gpus) if action.resources.gpu else (),
            device=self._identity(action.device) if action.device is not None else {},
            limit=self._limit(action),
            python=used,
            beside=needed.beside,
        )

    def outdated(self, request: ActionRequest) -> str:
        """Return the reason why the run of a request may differ from its key, or ''. The readers of modules and inputs
        compare those themselves."""
        tool = self._environment(request.python).installed.replaced(request.tools)
        return f"{tool} was installed anew during the build; build again" if tool else ""

    def _environment(self, used: python.Interpreter) -> _Environment:
        with self._lock:
            if used.program not in self._environments:
                self._environments[used.program] = self._make(used)
            return self._environments[used.program]

    def _needed(self, action: Action, inputs: Sequence[StagedInput], tools: Tools) -> Needed:
        sources = [i for i in inputs if i.name in action.python and i.path.endswith(".py")]
        names = {name for item in sources for name in self._names(item)}
        needed = tools.needed(action.tools, foreign(names, (item.path for item in sources)))
        if needed.missing:
            raise tools.not_installed(needed.missing, action.tools, action.owner)
        return needed

    def _preload(self, action: Action, needed: Needed, tools: Tools) -> tuple[str, ...]:
        """Return the modules that may be imported before the action's local modules are laid out: none if they import a
        distribution that is not in the action's key, would import a local module, or is replaced by a local module."""
        own = [module for module in action.preload if source_file(self._code.roots, module)]
        inner = (name for module, file in self._code.closure(*own) for name in imports(file, module))
        ahead = tools.needed((), {*action.preload, *inner})
        mixed = needed.local and (ahead.local or tools.shadow(needed.local))
        fits = not mixed and set(ahead.distributions) <= set(needed.distributions)
        return action.preload if fits else ()

    def _names(self, item: StagedInput) -> frozenset[str]:
        """Return the modules that a Python input may import."""
        assert isinstance(item.value, FileEntry)
        digest = item.value.digest
        if digest not in self._imported:
            self._imported[digest] = imported_modules({item.path: self._read(item, digest)})
        return self._imported[digest]

    def _read(self, item: StagedInput, digest: Digest) -> bytes:
        if item.source is None:
            return self._blob(digest)
        data = item.source.read_bytes()
        if digest_bytes(data) != digest:
            raise BuildError(f"{item.path} changed during the build; build again")
        return data


def _unstated(
    installed: InstalledContents, beside: Sequence[str], local: Sequence[StagedInput]
) -> tuple[StagedInput, ...]:
    """Return the files of local modules that no state of a distribution in the key contains."""
    return tuple(item for item in local if not beside or not installed.contains(beside, local_path(item), item.value))
