"""An action's key: the SHA-256 of everything that decides its outputs, and of nothing else."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Sequence
from typing import Any

from modelbuild.actions import Action, Digest, FileEntry
from modelbuild.errors import BuildError
from modelbuild.execution.interface import StagedInput
from modelbuild.execution.processor import machine
from modelbuild.execution.step_code import StepCode
from modelbuild.execution.tools import imported_distributions, version
from modelbuild.store.digests import digest_bytes, value_digest

# What surrounds a step and could change its output: the worker's environment, the form of this very record.
FORMAT = 1


class Keys:
    """Makes keys. `material` is kept beside a result, so that two keys can be compared in words.

    blob   reads an input that another action made, where what it imports is part of a key
    """

    def __init__(self, code: StepCode, blob: Callable[[Digest], bytes]) -> None:
        self._code = code
        self._blob = blob

    def material(self, action: Action, inputs: Sequence[StagedInput]) -> dict[str, Any]:
        """What the key is made of, as JSON values. No absolute path, time, host or undeclared environment is in it.

        Raises EnvironmentProblem when a tool is not installed, BuildError when a Python input is not what it was.
        """
        return {
            "format": FORMAT,
            "step": action.step,
            "code": self._code.digest(*action.modules),
            "params": dict(action.params),
            "inputs": [[i.name, i.path, value_digest(i.value)] for i in inputs],
            "outputs": [[o.name, o.path, o.kind] for o in action.outputs],
            "tools": {tool: version(tool, action.owner) for tool in self.tools(action, inputs)},
            "env": dict(action.env),
            "cpu": action.resources.cpu,
            **({"gpu": True} if action.resources.gpu else {}),  # whether the step sees any
            "python": platform.python_version(),
            "machine": machine(),
        }

    def tools(self, action: Action, inputs: Sequence[StagedInput]) -> tuple[str, ...]:
        """The distributions that the action may use: those it names and those its Python inputs import."""
        sources = {i.path: self._read(i) for i in inputs if i.name in action.python and i.path.endswith(".py")}
        return tuple(sorted({*action.tools, *imported_distributions(sources, action.tools)}))

    def _read(self, item: StagedInput) -> bytes:
        assert isinstance(item.value, FileEntry)
        if item.source is None:
            return self._blob(item.value.digest)
        data = item.source.read_bytes()
        if digest_bytes(data) != item.value.digest:
            raise BuildError(f"{item.path} changed during the build; build again")
        return data


def key_of(material: dict[str, Any]) -> str:
    """The key: SHA-256 (hex) of the material as canonical JSON (sorted names, no spaces, UTF-8)."""
    text = json.dumps(material, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
