"""Open the programs of a test without torch, which only a run in Python needs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TypeAlias

import numpy as np

import modelbuild_runtime
from modelbuild.step import Step, StepError
from modelbuild_runtime.describe import MethodDescription
from modelbuild_runtime.errors import ProgramError

Arrays: TypeAlias = dict[str, np.ndarray]
# The inputs, or the outputs, of each call of a case.
Calls: TypeAlias = list[Arrays]


def program_file(step: Step, name: str) -> Path:
    """Return the path of a program whose signature is in the same folder."""
    folder = Path(tempfile.mkdtemp(prefix=name))
    pte = folder / "program.pte"
    pte.symlink_to(step.input(f"{name}.pte").resolve())
    (folder / "signature.json").symlink_to(step.input(f"{name}.signature").resolve())
    return pte


def method_of(step: Step, program: modelbuild_runtime.Program) -> MethodDescription:
    """Return the program's method that the test runs. Raises StepError for a baseline with other methods."""
    described = program.describe()
    wanted = step.params.get("method")
    try:
        return described.method(wanted if wanted in {each.name for each in described.methods} else None)
    except ProgramError as error:
        raise StepError(str(error)) from error


def open_program(step: Step, name: str) -> modelbuild_runtime.Program:
    """Load a program, to describe it or to run it in Python. Raises StepError for a file that is not a program."""
    data = [step.input(f"{name}.ptd")] if f"{name}.ptd" in step.inputs else []
    try:
        return modelbuild_runtime.load_with_executorch(program_file(step, name), data)
    except ProgramError as error:
        raise StepError(str(error)) from error
