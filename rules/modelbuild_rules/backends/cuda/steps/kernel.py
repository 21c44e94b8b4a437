"""Compile a Triton kernel.

Inputs   request  tree: request.json (kernels/request.py)
Params   capabilities  as [86]
Outputs  kernel   tree: its image and what it uses (library/images.py)
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from modelbuild.step import Step
from modelbuild_rules.backends.cuda.steps.kernels.request import read_request
from modelbuild_rules.backends.cuda.steps.library.images import write_image

REQUEST = "request.json"


def run(step: Step) -> None:
    request = read_request((step.input("request") / REQUEST).read_text())
    with TemporaryDirectory() as work:
        write_image(request, step.params["capabilities"], Path(work), step.outputs["kernel"])
