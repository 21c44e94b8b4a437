"""Compile the candidates of a choice until the cheapest is known.

Inputs   choice  tree: choice.json (kernels/product_choice.py)
Params   capabilities  as [86]
Outputs  usages  JSON: what each compiled candidate uses, by the key of its request (kernels/product_choice.py)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from modelbuild.step import Step
from modelbuild_rules.backends.cuda.steps.kernels.compiler import Usage, compile_kernel, triton_compiler
from modelbuild_rules.backends.cuda.steps.kernels.device import common_gpu
from modelbuild_rules.backends.cuda.steps.kernels.product_choice import (
    Usages,
    cheapest,
    read_choice,
    write_usages,
)

CHOICE = "choice.json"


def run(step: Step) -> None:
    choice = read_choice((step.input("choice") / CHOICE).read_text())
    gpu, found = common_gpu(step.params["capabilities"]), Usages()
    with TemporaryDirectory() as work, triton_compiler(gpu, choice.requests[0].products, Path(work)):

        def usages(indices: Sequence[int]) -> Iterator[tuple[int, Usage | None]]:
            for number, index in enumerate(indices, 1):
                step.progress("candidate", number, len(indices))
                request = choice.requests[index]
                try:
                    found[request.key] = compile_kernel(request, Path(work)).usage
                except (MemoryError, OSError):
                    raise
                except Exception:  # Triton, LLVM and ptxas raise different types; the next candidate is tried
                    found[request.key] = None
                yield index, found[request.key]

        cheapest(choice.product, choice.split, choice.tiles, gpu, usages)
    step.outputs["usages"].write_text(write_usages(found))
