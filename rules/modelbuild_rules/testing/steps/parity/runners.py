"""Runners of a test's program: ExecuTorch's Python runtime in this process, or the C++ runtime in its own."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from modelbuild.step import Step, StepError
from modelbuild_rules.bundle.steps.runtime.archive import RUNNER, LaidOut, MissingBackend, calls_of, lay_out
from modelbuild_rules.bundle.steps.runtime.kernels import kernel_files
from modelbuild_rules.bundle.steps.runtime.source import runtime_of
from modelbuild_rules.bundle.steps.runtime.vendor import lay_out_libraries, needed_libraries
from modelbuild_rules.testing.steps.parity.gpus import missing_gpu
from modelbuild_rules.testing.steps.parity.machine import machine_for
from modelbuild_rules.testing.steps.parity.programs import (
    Call,
    Calls,
    Results,
    method_of,
    methods_of,
    open_program,
    program_file,
)
from modelbuild_runtime.bindings import lacking_backends, lacking_kernels
from modelbuild_runtime.errors import ProgramError


class Caller(Protocol):
    """Calls one program. A failed run raises ProgramError."""

    def run(self, calls: Calls) -> Results:
        """Return the outputs of each call. The first call starts with the program's initial state, and each other one
        with the state that the calls before left."""


class Runner(Caller, Protocol):
    """Runs one program, in an emulator if `emulator` is not ''."""

    emulator: str

    def unmet_requirement(self) -> str:
        """Return a requirement of the program that this machine does not meet, as text; '' if the program can run."""

    def median_ms(self, call: Call) -> float:
        """Return the median milliseconds of 10 runs after 3 warm-up runs."""


def runner_of(step: Step, name: str) -> Runner:
    """Return a runner for the program of the inputs `name.pte`, ...: the C++ runtime if the test asks for it, or if it
    is installed and has kernels that ExecuTorch's Python runtime lacks."""
    if step.params["cpp_runtime"]:
        return CppRunner(step, name)
    python = PythonRunner(step, name)
    return CppRunner(step, name) if "installed" in step.params and python.lacking_kernels() else python


class PythonRunner:
    """Runs a program on the CPU with ExecuTorch's Python bindings."""

    emulator = ""

    def __init__(self, step: Step, name: str) -> None:
        self._step = step
        self._machine = machine_for(step.params["arch"], emulated=False)
        self._name = name
        self._program = open_program(step, name)
        self._methods = methods_of(self._program, step.params["methods"])

    def unmet_requirement(self) -> str:
        if self._machine.unmet:
            return self._machine.unmet
        lacks = "which ExecuTorch's Python runtime lacks"
        if backends := list(dict.fromkeys(name for each in self._methods.values() for name in lacking_backends(each))):
            hint = "with 'cpp_runtime = true' the C++ runtime runs the program"
            return f"needs the backend {', '.join(backends)}, {lacks}; {hint}"
        if kernels := self.lacking_kernels():
            hint = "the C++ runtime runs it: install the wheel of modelbuild-runtime, or name an archive by 'runtime'"
            return f"needs the kernel {', '.join(kernels)}, {lacks}; {hint}"
        return ""

    def lacking_kernels(self) -> list[str]:
        """Return the kernels that the program needs and ExecuTorch's Python runtime lacks."""
        return list(dict.fromkeys(name for each in self._methods.values() for name in lacking_kernels(each)))

    def run(self, calls: Calls) -> Results:
        program = open_program(self._step, self._name)
        return [program.run(call.inputs, self._methods[call.method].name) for call in calls]

    def median_ms(self, call: Call) -> float:
        return self._program.measure(call.inputs, self._methods[call.method].name).median_ms


class CppRunner:
    """Runs a program with modelbuild-run and the libraries of a bundle, in a new process for each run."""

    def __init__(self, step: Step, name: str) -> None:
        self._program = program_file(step, name)
        self._data = [f"--data={step.input(f'{name}.ptd')}"] if f"{name}.ptd" in step.inputs else []
        self._step = step
        program = open_program(step, name)
        self._names = {each: method_of(program, each).name for each in step.params["methods"]}
        self._delegation = step.input(f"{name}.delegation")
        self._runtime = runtime_of(step)
        self._gpu = step.params["gpu"]
        self._arch = step.params["arch"]
        self._place = step.params["place"]
        self._machine = machine_for(self._arch, emulated=True)
        self.emulator = self._machine.emulator
        self._folder = Path(tempfile.mkdtemp(prefix="runtime"))

    def unmet_requirement(self) -> str:
        if self._machine.unmet:
            return self._machine.unmet
        calls = calls_of(self._program)
        try:
            laid_out = lay_out(self._runtime, calls, self._folder, self._arch, kernel_files(self._step))
        except MissingBackend as problem:
            return str(problem)
        except StepError as error:
            raise StepError(f"{self._place}: {error}") from error
        parts = json.loads(self._delegation.read_bytes())["partitions"]
        lay_out_libraries(self._step, laid_out, needed_libraries(parts), self._folder, only_needed=True)
        return self._missing_gpu(laid_out) or laid_out.missing_flavour() or self._unmet(laid_out)

    def run(self, calls: Calls) -> Results:
        found: Results = [{} for _ in calls]
        for output in self._report(calls)["outputs"]:
            found[output.get("call", 1) - 1][output["name"]] = np.load(output["path"])
        return found

    def median_ms(self, call: Call) -> float:
        return float(self._report([call], "--repeat=10", "--warmup=3")["latency"]["median_ms"])

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
            raise StepError(f"modelbuild-run {_failure(done)}")
        return next(iter(json.loads(done.stdout)["unmet"]), "")

    def _report(self, calls: Calls, *flags: str) -> dict[str, Any]:
        folder = Path(tempfile.mkdtemp(prefix="run"))
        given: list[str] = []
        for number, call in enumerate(calls):
            given += [*(["--next"] if number else []), f"--method={self._names[call.method]}"]
            for index, (name, array) in enumerate(call.inputs.items()):
                file = folder / f"input{number}.{index}.npy"
                np.save(file, array)
                given.append(f"--input={name}={file}")
        program = [*self._machine.command, str(self._folder / RUNNER), str(self._program), *self._data]
        command = [*program, *given, f"--output-dir={folder}", "--json", *flags]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            raise ProgramError(f"modelbuild-run {_failure(done)}")
        return dict(json.loads(done.stdout))


def _failure(done: subprocess.CompletedProcess[str]) -> str:
    """Return how the process failed: its last error line, the signal that killed it, or its exit status."""
    if done.returncode < 0:
        return f"was killed by {signal.Signals(-done.returncode).name}"
    lines = [line.removeprefix("error: ") for line in done.stderr.splitlines() if line.startswith("error: ")]
    return f"failed: {lines[-1]}" if lines else f"ended with exit status {done.returncode}: {done.stderr.strip()}"
