"""The interface of a step: the only module of modelbuild that code inside an action imports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any, Protocol

# Maximum number of characters of a part of the work, so that the numbers after it are shown.
_LONGEST = 40


class StepError(Exception):
    """A failure that the user can fix. The message is printed without a traceback."""


class Progress(Protocol):
    """Shows the part of a step's work that begins: see Step.progress."""

    def __call__(self, part: str, number: int | None = None, total: int | None = None) -> None: ...


def ignore_progress(part: str, number: int | None = None, total: int | None = None) -> None:
    """Show nothing: the Progress of work that no build waits for."""


def namesakes(error: BaseException) -> str:
    """Return the inputs that have the name of the file that an error misses, as a hint after its message; '' for other
    errors, and without such inputs. The current folder is the step's."""
    if not isinstance(error, FileNotFoundError) or not isinstance(error.filename, str):
        return ""
    found = sorted(path.as_posix() for path in Path().rglob(escape(Path(error.filename).name)) if path.is_file())
    return f"; the inputs of this name are {', '.join(found[:3])}" if found else ""


@dataclass(frozen=True, slots=True)
class Step:
    """One run of a step. Its function is `run(step: Step) -> None` in the module that the action names.

    params   the action's parameters (JSON values)
    inputs   input name -> paths, in the order declared; a folder where the artifact is a tree
    outputs  output name -> path to write: a missing file or an empty folder
    root     the current folder, to which inputs' workspace paths are relative
    cpus     the number of threads that the step may use
    show     shows one line next to the running action
    """

    params: Mapping[str, Any]
    inputs: Mapping[str, tuple[Path, ...]]
    outputs: Mapping[str, Path]
    root: Path
    cpus: int = 1
    show: Callable[[str], object] = ignore_progress

    def progress(self, part: str, number: int | None = None, total: int | None = None) -> None:
        """Show the part of the work that begins, next to the running action: `progress("kernel", 4, 17)` shows "kernel
        4 of 17". Never fails, and takes microseconds."""
        count = "" if number is None else f" {number}" if total is None else f" {number} of {total}"
        self.show(f"{part[:_LONGEST]}{count}")

    def input(self, name: str) -> Path:
        """Return the path of an input that is one file or folder. Raises KeyError for an unknown name, ValueError for
        several paths."""
        paths = self.inputs[name]
        if len(paths) != 1:
            raise ValueError(f"input {name!r} has {len(paths)} paths, not one")
        return paths[0]
