"""An action as messages of the Remote Execution API: a Command, and an input root as a Merkle tree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelbuild.actions import Digest, FileEntry, Tree, Value
from modelbuild.code.step_sources import StepCode, changed
from modelbuild.execution.executor import ActionRequest, step_order
from modelbuild.execution.isolation.environment import PYTHON_OPTIONS
from modelbuild.execution.isolation.kernel_choice import machine
from modelbuild.paths import HOME, OUTPUTS
from modelbuild.remote.execution.toolchain_files import FOLDER, files_of
from modelbuild.remote.execution.worker_entry import ENTRY
from modelbuild.remote.messages import message
from modelbuild.remote.results import MAX_TREE, Blobs, directory, from_message, keep, to_message, tree_value
from modelbuild.store.digests import digest_bytes
from modelbuild.workspace.platform_properties import properties

if TYPE_CHECKING:
    from modelbuild.execution.orders import RemoteOrder, Toolchain

# Files of the worker entry, in addition to the step's outputs.
REPORTS = ("report", "ended", "stdout", "stderr")
# Some workers make the input root their "/", and then the sandbox could not distinguish it from the machine.
_WORKING = "action"
_FOLDER = f"root/{OUTPUTS}"


class SourceChanged(Exception):
    """A module of the step changed; the message names it."""


@dataclass(frozen=True, slots=True)
class RemoteAction:
    """The messages and files of an action.

    action   the digest of the Action
    blobs    generated blobs: messages, the order, code
    inputs   digests of inputs, and the workspace file with this content, if any
    asked    the properties required of a worker
    """

    action: Digest
    blobs: Blobs
    inputs: Mapping[Digest, Path | None]
    asked: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Workers:
    """The code and the interpreter that workers run, the platform properties that each must have, and the interpreters
    of toolchains that workers have, by the toolchain's name."""

    code: StepCode
    python: str
    platform: Mapping[str, str]
    toolchains: Mapping[str, str] = field(default_factory=dict)
    _contents: dict[Path, tuple[Digest, bytes]] = field(default_factory=dict, compare=False)

    def content(self, file: Path) -> tuple[Digest, bytes]:
        """Return a module's digest and content, which is read once."""
        if file not in self._contents:
            data = file.read_bytes()
            self._contents[file] = digest_bytes(data), data
        return self._contents[file]


def describe(request: ActionRequest, workers: Workers) -> RemoteAction:
    """Return an action as messages that depend only on the request: equal on every machine.

    Raises SourceChanged for a module of the step that differs from its key.
    """
    blobs: Blobs = {}
    inputs: dict[Digest, Path | None] = {}
    files: dict[str, FileEntry] = {}
    for item in (*request.inputs, *request.local):
        for path, entry in _entries(item.path, item.value):
            files[f"root/{path}"] = entry
            inputs[entry.digest] = item.source or inputs.get(entry.digest)
    there = workers.toolchains.get(request.python.toolchain)
    sent = bool(request.python.toolchain) and there is None
    toolchain = files_of(request.python, request.tools) if sent else {}
    for path, (entry, source) in toolchain.items():
        files[f"{FOLDER}/{path}"] = entry
        inputs.setdefault(entry.digest, source)
    for name, file in {
        **dict(workers.code.closure(ENTRY)),
        **dict(workers.code.closure(*request.action.modules)),
    }.items():
        digest, data = workers.content(file)
        blobs[digest] = data
        if digest.hash != request.modules.get(name, digest.hash):
            raise SourceChanged(changed(name))
        files[_code_path(name, file)] = FileEntry(digest)
    files["order.json"] = FileEntry(_add(json.dumps(_order(request, sent), sort_keys=True).encode(), blobs))
    tree = Tree(tuple(sorted((f"{_WORKING}/{path}", entry) for path, entry in files.items())))
    root = keep(directory(tree, blobs), blobs)
    command = message("Command")(
        working_directory=_WORKING,
        arguments=[there or workers.python, *PYTHON_OPTIONS, "-B", _code_path(ENTRY, Path(f"{ENTRY}.py"))],
        output_paths=sorted([*REPORTS, *(f"{_FOLDER}/{output.path}" for output in request.action.outputs)]),
    )
    cpus = str(request.action.resources.cpu)
    for name, value in {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": cpus}.items():
        command.environment_variables.add(name=name, value=value)
    command.environment_variables.sort(key=lambda variable: variable.name)
    asked = properties(request.action, workers.platform)
    needed = message("Platform")()
    for name, value in asked.items():
        needed.properties.add(name=name, value=value)
    command.platform.CopyFrom(needed)
    action = message("Action")(
        command_digest=to_message(keep(command, blobs)), input_root_digest=to_message(root), platform=needed
    )
    if request.limit is not None:
        action.timeout.FromNanoseconds(int(request.limit.seconds * 1e9))
    return RemoteAction(keep(action, blobs), blobs, inputs, asked)


def outputs_of(
    request: ActionRequest, result: Any, read: Any
) -> tuple[tuple[tuple[str, Value], ...], dict[str, Digest]]:
    """Return the step's outputs by name, and the files of the worker entry. Missing outputs are omitted. Raises
    ValueError for invalid paths and folders."""
    if any((result.output_symlinks, result.output_file_symlinks, result.output_directory_symlinks)):
        raise ValueError("an output is a symbolic link; an output is made of plain files and folders")
    found: dict[str, Value] = {f.path: FileEntry(from_message(f.digest), f.is_executable) for f in result.output_files}
    trees = {d.path: from_message(d.tree_digest) for d in result.output_directories}
    if any(digest.size > MAX_TREE for digest in trees.values()):
        raise ValueError("the description of a folder is too big")
    data = read(list(trees.values()))
    found |= {path: tree_value(data[digest]) for path, digest in trees.items()}
    kinds = {f"{_FOLDER}/{output.path}": output for output in request.action.outputs}
    values = []
    for path, output in kinds.items():
        value = found.get(path)
        if value is None and output.kind == "tree":
            value = Tree(())
        if value is not None and isinstance(value, Tree) == (output.kind == "tree"):
            values.append((output.name, value))
    reports = {path: value.digest for path, value in found.items() if path in REPORTS and isinstance(value, FileEntry)}
    return tuple(values), reports


def _order(request: ActionRequest, sent: bool) -> RemoteOrder:
    """Return the order of an action, whose toolchain is in its input root if `sent`."""
    action, order = request.action, step_order(request)
    paths = order["outputs"]
    folders = {paths[o.name] if o.kind == "tree" else paths[o.name].rpartition("/")[0] for o in action.outputs}
    toolchain: Toolchain = {
        "python": request.python.version,
        "machine": machine(),
        "tools": {} if sent else {name: each for name, each in request.tools.items() if name not in request.beside},
        "folder": FOLDER if sent else "",
    }
    if action.resources.gpu:
        toolchain["gpus"] = list(request.gpus)
    return {
        "action": order,
        "outputs_folder": OUTPUTS,
        "home": HOME,
        "folders": sorted(folders),
        "preload": list(request.preload),
        "packages": sorted({"modelbuild", *(name.partition(".")[0] for name in request.modules)}),
        "toolchain": toolchain,
    }


def _entries(path: str, value: Value) -> list[tuple[str, FileEntry]]:
    if isinstance(value, FileEntry):
        return [(path, value)]
    return [(f"{path}/{name}", entry) for name, entry in value.files]


def _code_path(name: str, file: Path) -> str:
    path = f"code/{name.replace('.', '/')}"
    return f"{path}/__init__.py" if file.name == "__init__.py" else f"{path}.py"


def _add(data: bytes, blobs: Blobs) -> Digest:
    digest = digest_bytes(data)
    blobs[digest] = data
    return digest
