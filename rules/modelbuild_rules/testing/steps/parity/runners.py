"""What runs the program of a test: ExecuTorch's Python runtime in this process, or the C++ runtime in its own."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from modelbuild.step import Step
from modelbuild_rules.bundle.steps.runtime.archive import RUNNER, LackingBackend, LaidOut, lay_out
from modelbuild_rules.testing.steps.parity.gpus import lacking_gpu
from modelbuild_rules.testing.steps.parity.programs import Arrays, open_program, program_file
from modelbuild_runtime.bindings import lacking_backends
from modelbuild_runtime.errors import ProgramError


class Runner(Protocol):
    """Runs one program. What fails is a ProgramError."""

    def lacks(self) -> str:
        """What the program needs and is not here, in a line; '' when it can be run."""

    def run(self, inputs: Arrays) -> Arrays:
        """Outputs by name, of the program as it was made: what it keeps from run to run is new each time."""

    def median_ms(self, inputs: Arrays) -> float:
        """Milliseconds of a run: the median of 10 after 3 more."""


def runner_of(step: Step, name: str) -> Runner:
    """For the program of the inputs `name.pte`, ...: by the C++ runtime where the step has one."""
    return CppRunner(step, name) if "runtime" in step.inputs else PythonRunner(step, name)


class PythonRunner:
    """ExecuTorch's Python bindings: on the CPU."""

    def __init__(self, step: Step, name: str) -> None:
        self._step = step
        self._name = name
        self._program = open_program(step, name)

    def lacks(self) -> str:
        lacking = lacking_backends(self._program.describe().method("forward"))
        hint = "ExecuTorch's Python runtime lacks; the C++ runtime runs the program where the test has 'runtime'"
        return f"needs the backend {', '.join(lacking)}, which {hint}" if lacking else ""

    def run(self, inputs: Arrays) -> Arrays:
        return open_program(self._step, self._name).run(inputs)

    def median_ms(self, inputs: Arrays) -> float:
        return self._program.measure(inputs).median_ms


class CppRunner:
    """modelbuild-run and the libraries that a bundle of the program would have, in a process of its own each time."""

    def __init__(self, step: Step, name: str) -> None:
        self._program = program_file(step, name)
        self._data = [f"--data={step.input(f'{name}.ptd')}"] if f"{name}.ptd" in step.inputs else []
        self._runtime = step.input("runtime")
        self._gpu = step.params["gpu"]
        self._folder = Path(tempfile.mkdtemp(prefix="runtime"))

    def lacks(self) -> str:
        try:
            laid_out = lay_out(self._runtime, self._program, self._folder)
        except LackingBackend as lacking:
            return str(lacking)
        return self._lacking_gpu(laid_out) or laid_out.lacking_flavour()

    def run(self, inputs: Arrays) -> Arrays:
        report = self._report(inputs)
        return {output["name"]: np.load(output["path"]) for output in report["outputs"]}

    def median_ms(self, inputs: Arrays) -> float:
        return float(self._report(inputs, "--repeat=10", "--warmup=3")["latency"]["median_ms"])

    def _lacking_gpu(self, laid_out: LaidOut) -> str:
        cudart = laid_out.runtime["cudart"]
        return lacking_gpu(self._folder / cudart, self._gpu) if cudart in laid_out.needed else ""

    def _report(self, inputs: Arrays, *flags: str) -> dict[str, Any]:
        folder = Path(tempfile.mkdtemp(prefix="run"))
        files = [folder / f"input{index}.npy" for index in range(len(inputs))]
        for file, array in zip(files, inputs.values(), strict=True):
            np.save(file, array)
        given = [f"--input={name}={file}" for name, file in zip(inputs, files, strict=True)]
        program = [str(self._folder / RUNNER), str(self._program), *self._data]
        command = [*program, *given, f"--output-dir={folder}", "--json", *flags]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            raise ProgramError(f"modelbuild-run {_how(done)}")
        return dict(json.loads(done.stdout))


def _how(done: subprocess.CompletedProcess[str]) -> str:
    """How it failed: its own last line, or the signal that it was killed by."""
    if done.returncode < 0:
        return f"was killed by {signal.Signals(-done.returncode).name}"
    lines = [line.removeprefix("error: ") for line in done.stderr.splitlines() if line.startswith("error: ")]
    return f"failed: {lines[-1]}" if lines else f"ended with exit status {done.returncode}: {done.stderr.strip()}"
