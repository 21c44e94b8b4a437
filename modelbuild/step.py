"""The interface of a step: the only module of modelbuild that code inside an action imports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class StepError(Exception):
    """A failure that the user can fix. The message is printed as it is, without a traceback."""


@dataclass(frozen=True, slots=True)
class Step:
    """One run of a step. Its function is `run(step: Step) -> None` in the module that the action names.

    params   the action's parameters (JSON values)
    inputs   input name -> paths, in the order declared; files, or folders where the artifact is a tree
    outputs  output name -> path to write: a file that does not exist yet, or an empty folder
    root     the folder that inputs' workspace paths are relative to (also the current folder)
    cpus     how many threads the step may use
    """

    params: Mapping[str, Any]
    inputs: Mapping[str, tuple[Path, ...]]
    outputs: Mapping[str, Path]
    root: Path
    cpus: int = 1

    def input(self, name: str) -> Path:
        """Return the path of an input that is a single file or folder. Raises KeyError for an unknown name, and
        ValueError for several paths."""
        paths = self.inputs[name]
        if len(paths) != 1:
            raise ValueError(f"input {name!r} has {len(paths)} paths, not one")
        return paths[0]
