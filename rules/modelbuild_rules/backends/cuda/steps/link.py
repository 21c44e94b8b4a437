"""Link the library of a partition.

Inputs   code       tree: generated code (generate_code.py)
         wrapper    the object of its C++ source
         interface  tree: the objects that all libraries have in common (interface.py)
         kernels    trees: its compiled kernels (kernel.py), in the order of their requests' keys
         runtime    tree: the output of backend_api/steps/cpp_runtime.py for the machine
Params   target     zig's name of the machine
Outputs  code       tree: as backends/cuda/steps/storing.py reads it
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from modelbuild.step import Step
from modelbuild_rules.backends.cuda.steps.library.code import write_linked


def run(step: Step) -> None:
    with TemporaryDirectory() as work:
        write_linked(
            step.input("code"),
            [step.input("wrapper"), *sorted(step.input("interface").iterdir())],
            step.inputs.get("kernels", ()),
            step.params["target"],
            step.input("runtime"),
            Path(work),
            step.outputs["code"],
        )
