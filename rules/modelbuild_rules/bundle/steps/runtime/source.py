"""The runtime of a step: the archive among its inputs, or the files of an installed package."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from modelbuild.step import Step, StepError


def runtime_of(step: Step) -> Path:
    """Return the archive of the input `runtime`, or else the folder of the module in the param `installed`. Raises
    StepError if this folder has no runtime, as in a source installation."""
    if "runtime" in step.inputs:
        return step.input("runtime")
    module = step.params["installed"]
    spec = importlib.util.find_spec(module)
    folder = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
    if folder is None or not (folder / "runtime.json").is_file():
        raise StepError(
            f"{step.params['place']}: the installed package {module} contains no C++ runtime; expected its wheel for"
            " Linux with glibc 2.35, or the attribute 'runtime'"
        )
    return folder
