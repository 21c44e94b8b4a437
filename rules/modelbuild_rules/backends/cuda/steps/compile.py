"""Compile a partition for the CUDA delegate in one process: the actions of backends/cuda/backend.py, one after another.

Inputs   program   tree: the partition's program, without its weights
         runtime   tree: the output of backend_api/steps/cpp_runtime.py for the machine
         tuning    a tuning file, if the stack names one
Params   attributes  the attributes of the backend's table that decide the bytes
Outputs  code      tree: as backends/cuda/steps/storing.py reads it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from modelbuild.step import Step
from modelbuild_rules.backends.cuda.steps import generate_code, interface, kernel, link, wrapper


def run(step: Step) -> None:
    with TemporaryDirectory() as work:
        compile(step, Path(work))


def compile(step: Step, work: Path) -> None:
    """Run the steps. `work`: an empty folder, which keeps what they write."""
    attributes = step.params["attributes"]

    def made(name: str, *trees: str) -> dict[str, Path]:
        paths = {tree: work / name / tree for tree in trees}
        for path in paths.values():
            path.mkdir(parents=True)
        return paths

    def run(
        run_step: Callable[[Step], None],
        params: Mapping[str, Any],
        inputs: Mapping[str, tuple[Path, ...]],
        outputs: Mapping[str, Path],
    ) -> None:
        run_step(replace(step, params=params, inputs=inputs, outputs=outputs))

    code = made("generated", "code", "requests")
    files = {name: work / "generated" / name for name in ("plan", "wrapper.cpp")}
    given = {name: paths for name, paths in step.inputs.items() if name != "runtime"}
    run(generate_code.run, step.params, given, {**code, "plan": files["plan"], "wrapper": files["wrapper.cpp"]})
    kernels = []
    requests = sorted(code["requests"].iterdir())
    for number, request in enumerate(requests, 1):
        step.progress("kernel", number, len(requests))
        output = made(f"kernels/{request.name}", "kernel")
        run(kernel.run, attributes, {"request": (request,)}, output)
        kernels.append(output["kernel"])
    step.progress("linking")
    run(wrapper.run, attributes, {"wrapper": (files["wrapper.cpp"],)}, {"object": work / "wrapper.o"})
    common = made("common", "interface")
    run(interface.run, attributes, {}, common)
    objects = {"wrapper": (work / "wrapper.o",), "interface": (common["interface"],)}
    inputs = {"code": (code["code"],), **objects, "kernels": tuple(kernels), "runtime": step.inputs["runtime"]}
    run(link.run, attributes, inputs, step.outputs)
