"""Write the command that runs a tapped program on a device with the inputs of the first case that failed.

Inputs   report   of the test
         cases    the folder that testing/steps/device_cases.py wrote
         taps     the folder that tapped_program.py wrote
         program.ptd
Outputs  plan     a folder: commands.json (see modelbuild.api.DeviceJob), and case.json: the case's index in cases.json,
                  null if no case failed
"""

from __future__ import annotations

import json

from modelbuild.step import Step

RUNNER = "bundle/bin/modelbuild-run"
COMMAND = "taps"


def run(step: Step) -> None:
    folder = step.outputs["plan"]
    folder.mkdir(exist_ok=True)
    report = json.loads(step.input("report").read_bytes())
    failed = {case["name"] for case in report["cases"] if case["status"] == "failed"}
    cases = json.loads((step.input("cases") / "cases.json").read_bytes())
    index = next((index for index, case in enumerate(cases) if case["name"] in failed), None)
    (folder / "case.json").write_text(json.dumps(index))
    commands = []
    if index is not None:
        methods = json.loads((step.input("taps") / "taps.json").read_bytes())["methods"]
        argv = [RUNNER, "taps/tapped.pte"]
        argv += [f"--data=program.ptd/{path.name}" for path in step.inputs.get("program.ptd", ())]
        for number, call in enumerate(cases[index]["calls"]):
            tapped = methods[call["method"]]
            argv += [*(["--next"] if number else []), f"--method={tapped['name']}"]
            argv += [f"--input={tapped['inputs'][name]}=cases/{file}" for name, file in call["inputs"].items()]
        commands.append({"name": COMMAND, "argv": [*argv, f"--output-dir=out/{COMMAND}", "--json"]})
    (folder / "commands.json").write_text(json.dumps(commands))
