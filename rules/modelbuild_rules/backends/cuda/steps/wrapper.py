"""Compile the C++ source of a partition's library.

Inputs   wrapper  the source (generate_code.py)
Params   target   zig's name of the machine
Outputs  object   the object
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from modelbuild.step import Step
from modelbuild_rules.backends.cuda.steps.library.wrapper import compile_wrapper


def run(step: Step) -> None:
    with TemporaryDirectory() as work:
        made = compile_wrapper(step.input("wrapper").read_text(), step.params["target"], Path(work))
        shutil.copyfile(made, step.outputs["object"])
