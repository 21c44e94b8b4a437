"""Compile the C++ that all libraries for a kind of machine have in common.

Params   target     zig's name of the machine
Outputs  interface  tree: objects
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from modelbuild.step import Step
from modelbuild_rules.backends.cuda.steps.library.wrapper import compile_interface


def run(step: Step) -> None:
    with TemporaryDirectory() as work:
        for made in compile_interface(step.params["target"], Path(work)):
            shutil.copyfile(made, step.outputs["interface"] / made.name)
