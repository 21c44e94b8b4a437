"""Run a program with the C++ runtime, in a separate process."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import modelbuild_runtime
from modelbuild.step import Step, StepError
from modelbuild_rules.bundle.steps.runtime.archive import RUNNER, LaidOut, MissingBackend, calls_of, lay_out
from modelbuild_rules.bundle.steps.runtime.kernels import kernel_files
from modelbuild_rules.bundle.steps.runtime.source import runtime_of
from modelbuild_rules.bundle.steps.runtime.vendor import lay_out_libraries, needed_libraries
from modelbuild_rules.installed_runtime import installed_runtime
from modelbuild_rules.testing.steps.parity.gpus import missing_gpu
from modelbuild_rules.testing.steps.parity.machine import machine_for
from modelbuild_rules.testing.steps.parity.programs import (
    Arrays,
    Call,
    Calls,
    Results,
    description_of,
    method_of,
    program_file,
    tensor_ports,
)
from modelbuild_runtime.errors import ProgramError


class Caller(Protocol):
    """Calls one program. A failed run raises ProgramError."""

    def run(self, calls: Calls) -> Results:
        """Return the outputs of each call. The first call starts with the program's initial state, and each other call
        with the state that earlier calls left."""


class ProgramRunner:
    """Runs a program with modelbuild-run and the libraries of a bundle, in a new process for each run."""

    def __init__(self, step: Step, name: str) -> None:
        self._program = program_file(step, name)
        self._data = [f"--data={step.input(f'{name}.ptd')}"] if f"{name}.ptd" in step.inputs else []
        self._step = step
        program = description_of(step, name)
        self._names = {each: method_of(program, each).name for each in step.params["methods"]}
        self._delegation = step.input(f"{name}.delegation")
        self._gpu = step.params["gpu"]
        self._arch = step.params["arch"]
        self._place = step.params["place"]
        self._machine = machine_for(self._arch)
        self.emulator = self._machine.emulator
        self._folder = Path(tempfile.mkdtemp(prefix="runtime"))

    def unmet_requirement(self) -> str:
        if self._machine.unmet:
            return self._machine.unmet
        if "runtime" not in self._step.inputs and not self._step.params["installed"]:
            package = installed_runtime(self._arch).distribution
            return f"needs the C++ runtime for {self._arch}; expected the package {package}, or the attribute 'runtime'"
        calls = calls_of(self._program)
        try:
            laid_out = lay_out(runtime_of(self._step), calls, self._folder, self._arch, kernel_files(self._step))
        except MissingBackend as problem:
            return str(problem)
        except StepError as error:
            raise StepError(f"{self._place}: {error}") from error
        parts = json.loads(self._delegation.read_bytes())["partitions"]
        lay_out_libraries(self._step, laid_out, needed_libraries(parts), self._folder, only_needed=True)
        return self._missing_gpu(laid_out) or laid_out.missing_flavour() or self._unmet(laid_out)

    @property
    def on_gpu(self) -> bool:
        """Return whether a part of the program runs on a GPU."""
        partitions = json.loads(self._delegation.read_bytes())["partitions"]
        return any(part.get("about", {}).get("capabilities") for part in partitions)

    def run(self, calls: Calls) -> Results:
        found: Results = [{} for _ in calls]
        for output in self._report(calls)["outputs"]:
            found[output.get("call", 1) - 1][output["name"]] = np.load(output["path"])
        return found

    def measures(self, call: Call) -> dict[str, float]:
        """Return the median milliseconds of 10 runs after 3 others, `latency_ms`, and the most bytes of the process
        that were in RAM at once, `memory`."""
        report = self._report([call], "--repeat=10", "--warmup=3")
        return {"latency_ms": float(report["latency"]["median_ms"]), "memory": float(report["peak_memory"] or 0)}

    def _missing_gpu(self, laid_out: LaidOut) -> str:
        cudart = laid_out.runtime["cudart"]
        if cudart not in laid_out.needed:
            return ""
        if self.emulator:
            return f"needs a GPU of a device with {self._arch}, and {self.emulator} emulates none"
        return missing_gpu(self._folder / cudart, self._gpu)

    def _unmet(self, laid_out: LaidOut) -> str:
        """Return the first requirement of the program's parts on a GPU that this machine does not meet."""
        if laid_out.runtime["cudart"] not in laid_out.needed:
            return ""
        command = [*self._machine.command, str(self._folder / RUNNER), str(self._program), *self._data]
        done = subprocess.run([*command, "--describe", "--json"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise StepError(f"modelbuild-run {_failure(done, self._program)}")
        return next(iter(json.loads(done.stdout)["unmet"]), "")

    def run_file(
        self, path: Path, data: Path | None, calls: Sequence[tuple[str | None, Sequence[np.ndarray]]]
    ) -> list[list[np.ndarray]]:
        """Call methods of another program, which needs no other libraries, with inputs in its order; None is its only
        method. Return the outputs of each call in its order."""
        program = modelbuild_runtime.read_description(path, [data] if data else [])
        made: list[tuple[str, Arrays]] = []
        for method, given in calls:
            described = program.method(method)
            made.append(
                (described.name, dict(zip((each.name for each in tensor_ports(described)), given, strict=True)))
            )
        found: list[list[np.ndarray]] = [[] for _ in calls]
        for output in self._called(path, [f"--data={data}"] if data else [], made)["outputs"]:
            found[output.get("call", 1) - 1].append(np.load(output["path"]))
        return found

    def _report(self, calls: Calls, *flags: str) -> dict[str, Any]:
        named = [(self._names[call.method], call.inputs) for call in calls]
        return self._called(self._program, self._data, named, *flags)

    def _called(
        self, path: Path, data: Sequence[str], calls: Sequence[tuple[str, Arrays]], *flags: str
    ) -> dict[str, Any]:
        folder = Path(tempfile.mkdtemp(prefix="run"))
        given: list[str] = []
        for number, (method, inputs) in enumerate(calls):
            given += [*(["--next"] if number else []), f"--method={method}"]
            for index, (name, array) in enumerate(inputs.items()):
                file = folder / f"input{number}.{index}.npy"
                np.save(file, array)
                given.append(f"--input={name}={file}")
        program = [*self._machine.command, str(self._folder / RUNNER), str(path), *data]
        command = [*program, *given, f"--output-dir={folder}", "--json", *flags]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            raise ProgramError(f"modelbuild-run {_failure(done, path)}")
        return dict(json.loads(done.stdout))


def _failure(done: subprocess.CompletedProcess[str], program: Path) -> str:
    """Return how the process failed: its last error line, the signal that killed it, or its exit status."""
    if done.returncode < 0:
        return f"was killed by {signal.Signals(-done.returncode).name}"
    lines = [line.removeprefix("error: ") for line in done.stderr.splitlines() if line.startswith("error: ")]
    return (
        f"failed: {lines[-1].removeprefix(f'{program}: ')}"
        if lines
        else f"ended with exit status {done.returncode}: {done.stderr.strip()}"
    )
