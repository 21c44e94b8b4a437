"""An action's key: the SHA-256 of exactly the facts that decide its outputs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from modelbuild.actions import Action, Material, StagedInput
from modelbuild.execution.executor import ActionRequest
from modelbuild.execution.isolation.kernel_choice import machine
from modelbuild.paths import LOCAL
from modelbuild.store.digests import value_digest

# Version of the environment of steps, and of the format of this material.
FORMAT = 4
NO_DEVICE: Mapping[str, str] = MappingProxyType({})


def material_of(request: ActionRequest) -> Material:
    """Return the material of a request's key: JSON values, without absolute paths, times, hosts and undeclared
    environment. It is stored with a result, to explain differences between two keys."""
    inputs = [[item.name, item.path, value_digest(item.value)] for item in request.inputs]
    local: dict[str, dict[str, str]] = {}
    for item in request.keyed_local:
        local.setdefault(item.name, {})[local_path(item)] = value_digest(item.value)
    python = request.python.version
    return material(request.action, request.code, inputs, request.tools, python, local, request.gpus, request.device)


def material(
    action: Action,
    code: str,
    inputs: list[list[str]],
    tools: Mapping[str, Any],
    python: str,
    local: dict[str, dict[str, str]],
    gpus: Sequence[str] = (),
    device: Mapping[str, str] = NO_DEVICE,
) -> Material:
    """Return the material of an action on this machine. The digests in `inputs` and `local`, and the states of `tools`,
    may be any texts that differ if the contents do."""
    made: Material = {
        "format": FORMAT,
        "step": action.step,
        "code": code,
        "params": dict(action.params),
        "inputs": inputs,
        "outputs": [[output.name, output.path, output.kind] for output in action.outputs],
        "tools": dict(tools),
        "env": dict(action.env),
        "cpu": action.resources.cpu,
        "python": python,
        "machine": machine(),
    }
    if local:
        made["local"] = local
    if action.resources.gpu:
        made["gpu"] = list(gpus)
    if action.device is not None:
        made["device"] = dict(device)
    return made


def local_path(item: StagedInput) -> str:
    """Return the path of a local module's file, relative to the folder that it is imported from."""
    return item.path.removeprefix(f"{LOCAL}/")


def key_of(material: Mapping[str, object] | Sequence[object]) -> str:
    """Return the key: the SHA-256 (hex) of the material as canonical JSON (sorted names, no spaces, UTF-8)."""
    text = json.dumps(material, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
