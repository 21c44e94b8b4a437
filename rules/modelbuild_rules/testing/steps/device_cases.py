"""Write the inputs of a test's cases, and the commands that run its program on a device with them.

Inputs   program.pte, .ptd, .signature
         case.<index>.<number>.<input>   files of inputs
         srcs, data, weights.<prefix>    the models' files, if some inputs are outputs of earlier calls
Params   cases, filter   as rules/pte_test.py declares them
         methods         likewise, if some inputs are outputs of earlier calls
         latency_runs    measured runs; 0 to measure nothing
Outputs  cases   a folder: arrays, cases.json (name of each case, and the method and the files of each call by input),
                 commands.json (see modelbuild.api.DeviceJob)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import modelbuild_runtime
from modelbuild.step import Step
from modelbuild_rules.testing.steps.parity.cases import Plan, cases
from modelbuild_rules.testing.steps.parity.device_report import LATENCY
from modelbuild_rules.testing.steps.parity.programs import Calls, description_of, latencies, method_of

_RUN = ("bundle/bin/modelbuild-run", "bundle")


def run(step: Step) -> None:
    program = description_of(step, "program")
    folder = step.outputs["cases"]
    folder.mkdir(exist_ok=True)
    listed, commands = [], [{"name": "describe", "argv": [*_RUN, "--describe", "--json"]}]
    runs = step.params["latency_runs"]
    resolve = _Resolver(step, program)
    measured: list[dict[str, Any]] = []
    for number, (name, plan) in enumerate(cases(step, program)):
        calls = resolve(plan)
        files = _save(folder, number, calls)
        listed.append({"name": name, "calls": files})
        given: list[str] = []
        for index, call in enumerate(files):
            given += ["--next"] if index else []
            given += call_arguments(program, call)
        argv = [*_RUN, *given, f"--output-dir=out/case{number}", "--json"]
        commands.append({"name": f"case{number}", "argv": argv})
        if runs and not number:
            flags = (f"--repeat={runs}", f"--warmup={max(3, runs // 10)}", "--json")
            for measure, place in latencies(calls).items():
                arguments = call_arguments(program, files[place])
                command = measure.replace(f"{LATENCY}_ms", LATENCY, 1)
                measured.append({"name": command, "argv": [*_RUN, *arguments, *flags]})
    (folder / "cases.json").write_text(json.dumps(listed))
    (folder / "commands.json").write_text(json.dumps([*commands, *measured]))


def call_arguments(program: modelbuild_runtime.Description, call: Mapping[str, Any]) -> list[str]:
    """Return the arguments of modelbuild-run for a call of cases.json."""
    files = [f"--input={name}=cases/{file}" for name, file in call["inputs"].items()]
    return [f"--method={method_of(program, call['method']).name}", *files]


class _Resolver:
    """Gives each call its inputs. Makes the models in eager PyTorch if some inputs are outputs of earlier calls."""

    def __init__(self, step: Step, program: modelbuild_runtime.Description) -> None:
        self._step, self._program = step, program

    def __call__(self, plan: Plan) -> Calls:
        if not any(planned.fed for planned in plan):
            return [planned.call({}) for planned in plan]
        calls, _ = self._eager.run(plan)
        return calls

    @cached_property
    def _eager(self) -> Any:
        from modelbuild_rules.testing.steps.parity.eager import Eager  # imports torch, which takes seconds

        return Eager(self._step, self._program)


def _save(folder: Path, number: int, calls: Calls) -> list[dict[str, Any]]:
    """Write the inputs of a case; return the method and the files by input of each call."""
    saved = []
    for place, call in enumerate(calls):
        files = {}
        for index, (name, array) in enumerate(call.inputs.items()):
            files[name] = f"{number}.{place}.{index}.npy"
            np.save(folder / files[name], array)
        saved.append({"method": call.method, "inputs": files})
    return saved
