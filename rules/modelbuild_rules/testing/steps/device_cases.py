"""Write the inputs of a test's cases, and the commands that run its program on a device with them.

Inputs   program.pte, .ptd, .signature
         case.<index>.<number>.<input>   files of inputs
Params   cases, filter, method   as rules/pte_test.py declares them
         latency_runs            measured runs; 0 to measure nothing
Outputs  cases   a folder: arrays, cases.json (name of each case, and the files of each call by input), commands.json
                 (see modelbuild.api.DeviceJob)
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from modelbuild.step import Step
from modelbuild_rules.testing.steps.parity.parity import cases
from modelbuild_rules.testing.steps.parity.programs import Calls, method_of, open_program

_RUN = ("bundle/bin/modelbuild-run", "bundle")


def run(step: Step) -> None:
    program = open_program(step, "program")
    folder = step.outputs["cases"]
    folder.mkdir(exist_ok=True)
    listed, commands = [], [{"name": "describe", "argv": [*_RUN, "--describe", "--json"]}]
    method = f"--method={method_of(step, program).name}"
    first: list[str] = []
    for number, (name, calls) in enumerate(cases(step, program)):
        files = _save(folder, number, calls)
        listed.append({"name": name, "calls": files})
        given: list[str] = []
        for index, call in enumerate(files):
            given += ["--next"] if index else []
            given += [f"--input={each}=cases/{file}" for each, file in call.items()]
        first = first or [f"--input={each}=cases/{file}" for each, file in files[0].items()]
        argv = [*_RUN, method, *given, f"--output-dir=out/case{number}", "--json"]
        commands.append({"name": f"case{number}", "argv": argv})
    runs = step.params["latency_runs"]
    if runs:
        measured = [*_RUN, method, *first, f"--repeat={runs}", f"--warmup={max(3, runs // 10)}", "--json"]
        commands.append({"name": "latency", "argv": measured})
    (folder / "cases.json").write_text(json.dumps(listed))
    (folder / "commands.json").write_text(json.dumps(commands))


def _save(folder: Path, number: int, calls: Calls) -> list[dict[str, str]]:
    """Write the inputs of a case; return their files by input, for each call."""
    files: list[dict[str, str]] = []
    for call, inputs in enumerate(calls):
        files.append({})
        for index, (name, array) in enumerate(inputs.items()):
            file = f"{number}.{call}.{index}.npy"
            np.save(folder / file, array)
            files[-1][name] = file
    return files
