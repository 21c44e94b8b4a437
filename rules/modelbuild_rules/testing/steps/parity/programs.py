"""Open the programs of a test without torch, which only a run in Python needs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

import modelbuild_runtime
from modelbuild.step import Step, StepError
from modelbuild_runtime.describe import MethodDescription, Port
from modelbuild_runtime.errors import ProgramError

Arrays: TypeAlias = dict[str, np.ndarray]


@dataclass(frozen=True)
class Call:
    """A call of a program: a method's name in the test, and its inputs."""

    method: str
    inputs: Arrays


Calls: TypeAlias = list[Call]
# The outputs of each call of a case.
Results: TypeAlias = list[Arrays]


def latencies(calls: Calls) -> dict[str, int]:
    """Return the places of a case's measured calls by the names of their measures: the first call, and the first call
    of each other method."""
    found = {"latency_ms": 0}
    for place, call in enumerate(calls):
        if call.method != calls[0].method:
            found.setdefault(f"latency_ms_{call.method}", place)
    return found


def program_file(step: Step, name: str) -> Path:
    """Return the path of a program whose signature is in the same folder."""
    folder = Path(tempfile.mkdtemp(prefix=name))
    pte = folder / "program.pte"
    pte.symlink_to(step.input(f"{name}.pte").resolve())
    (folder / "signature.json").symlink_to(step.input(f"{name}.signature").resolve())
    return pte


def method_of(program: modelbuild_runtime.Description, name: str | None) -> MethodDescription:
    """Return a program's method; `forward` stands for the only method. Raises StepError for a baseline with other
    methods."""
    try:
        return program.method(name if name in {each.name for each in program.methods} else None)
    except ProgramError as error:
        raise StepError(str(error)) from error


def methods_of(program: modelbuild_runtime.Description, names: Iterable[str]) -> dict[str, MethodDescription]:
    """Return methods by their names in the test."""
    return {name: method_of(program, name) for name in names}


def tensor_ports(method: MethodDescription) -> list[Port]:
    """Return the tensor inputs of a method, in its order."""
    return [port for port in method.inputs if port.kind == "tensor"]


def description_of(step: Step, name: str) -> modelbuild_runtime.Description:
    """Describe a program of the step. Raises StepError for a file that is not a program."""
    data = [step.input(f"{name}.ptd")] if f"{name}.ptd" in step.inputs else []
    try:
        return modelbuild_runtime.read_description(program_file(step, name), data)
    except ProgramError as error:
        raise StepError(str(error)) from error
