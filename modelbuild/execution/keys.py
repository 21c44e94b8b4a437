"""An action's key: the SHA-256 of exactly the facts that decide its outputs."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from modelbuild.actions import Action, Digest, FileEntry, Material, StagedInput
from modelbuild.code import interpreter as python
from modelbuild.code.installed_contents import InstalledContents
from modelbuild.code.local_contents import Files, LocalContents
from modelbuild.code.step_sources import StepCode
from modelbuild.code.tools import Needed, Tools, foreign, imported_modules
from modelbuild.device_runners import DeviceJob
from modelbuild.errors import BuildError
from modelbuild.execution.executor import Request
from modelbuild.execution.gpus import visible
from modelbuild.execution.isolation.kernel_choice import machine
from modelbuild.paths import LOCAL
from modelbuild.store.digests import digest_bytes, value_digest

Identity: TypeAlias = Callable[[DeviceJob], Mapping[str, str]]
# Returns the Python that the actions of a target, by its id, run in.
Pythons: TypeAlias = Callable[[str], python.Interpreter]

# Version of the environment of steps, and of the form of this record.
FORMAT = 2


class _Environment:
    """The packages of one Python: tools, and the distributions that they find, by content."""

    def __init__(self, workspace: Path, packages: Collection[str], files: Files, used: python.Interpreter) -> None:
        self.tools = Tools(workspace, packages, used)
        self.installed = InstalledContents(self.tools.distributions, lambda path: files.entry(path)[1])


class Keys:
    """Computes keys. `material` is stored beside a result, to explain differences between two keys.

    blob       reads an input that another action made, to find its imports
    local      local modules, by content
    make       returns the packages of a Python
    pythons    returns the Python that the actions of a target run in
    gpus       models of GPUs, for actions that use one, if this machine has none
    identity   returns the identity of the device of a job, for actions of which a part runs on one; empty if none is
               there
    """

    def __init__(
        self,
        code: StepCode,
        blob: Callable[[Digest], bytes],
        local: LocalContents,
        make: Callable[[python.Interpreter], _Environment],
        pythons: Pythons,
        gpus: Sequence[str],
        identity: Identity,
    ) -> None:
        self._code = code
        self._blob = blob
        self._local = local
        self._make = make
        self._pythons = pythons
        self._gpus = tuple(gpus)
        self._identity = identity
        self._environments: dict[str, _Environment] = {}
        self._lock = threading.Lock()
        self._imported: dict[Digest, frozenset[str]] = {}

    @classmethod
    def of(
        cls,
        workspace: Path,
        packages: Mapping[str, Path],
        blob: Callable[[Digest], bytes],
        files: Files,
        gpus: Sequence[str] = (),
        pythons: Pythons = lambda owner: python.installed(),
        identity: Identity = lambda job: {},
    ) -> Keys:
        """Return an object that computes keys of a workspace's actions. `packages`: folders of modelbuild and of rule
        packages, by import name."""
        make = partial(_Environment, workspace, packages, files)
        return cls(StepCode(packages), blob, LocalContents(files), make, pythons, gpus, identity)

    def request(self, action: Action, inputs: Sequence[StagedInput]) -> Request:
        """Return the request that an executor runs. Raises as material() does."""
        used = self._pythons(action.owner)
        environment = self._environment(used)
        needed = self._needed(action, inputs, environment.tools)
        return Request(
            action,
            tuple(inputs),
            environment.installed.states(needed.distributions),
            self._code.modules(*action.modules),
            self._local.staged(needed.local),
            _ahead(action, needed, environment.tools),
            (visible() or self._gpus) if action.resources.gpu else (),
            self._identity(action.device) if action.device is not None else {},
            python=used,
            beside=needed.beside,
        )

    def material(self, request: Request) -> Material:
        """Return the key's material as JSON values, without absolute paths, times, hosts and undeclared environment.

        Raises EnvironmentProblem for a missing tool, and BuildError for a Python input that changed.
        """
        action = request.action
        material: Material = {
            "format": FORMAT,
            "step": action.step,
            "code": self._code.digest(*action.modules),
            "params": dict(action.params),
            "inputs": [[i.name, i.path, value_digest(i.value)] for i in request.inputs],
            "outputs": [[o.name, o.path, o.kind] for o in action.outputs],
            "tools": dict(request.tools),
            "env": dict(action.env),
            "cpu": action.resources.cpu,
            "python": request.python.version,
            "machine": machine(),
        }
        local = self._unstated(request) if request.beside else request.local
        if local:
            material["local"] = _local(local)
        if action.resources.gpu:
            material["gpu"] = list(request.gpus)
        if action.device is not None:
            material["device"] = dict(request.device)
        return material

    def outdated(self, request: Request) -> str:
        """Return the reason why the run of a request may differ from its key, or ''. The readers of modules and inputs
        compare those themselves."""
        tool = self._environment(request.python).installed.replaced(request.tools)
        return f"{tool} was installed anew during the build; build again" if tool else ""

    def _unstated(self, request: Request) -> list[StagedInput]:
        """Return the files of local modules that no state of a distribution in the key contains."""
        contents = self._environment(request.python).installed
        return [item for item in request.local if not contents.contains(request.beside, _path(item), item.value)]

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


def _ahead(action: Action, needed: Needed, tools: Tools) -> tuple[str, ...]:
    """Return the modules that may be imported before the action's local modules are laid out: none that would import
    one of them, or a module that one of them replaces."""
    mixed = needed.local and (tools.needed((), action.preload).local or tools.shadow(needed.local))
    return () if mixed else action.preload


def _local(staged: Sequence[StagedInput]) -> dict[str, dict[str, str]]:
    """Return digests of local modules' files, by module and path."""
    found: dict[str, dict[str, str]] = {}
    for item in staged:
        found.setdefault(item.name, {})[_path(item)] = value_digest(item.value)
    return found


def _path(item: StagedInput) -> str:
    """Return the path of a local module's file, relative to the folder that it is imported from."""
    return item.path.removeprefix(f"{LOCAL}/")


def key_of(material: Mapping[str, object]) -> str:
    """Return the key: the SHA-256 (hex) of the material as canonical JSON (sorted names, no spaces, UTF-8)."""
    text = json.dumps(material, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
