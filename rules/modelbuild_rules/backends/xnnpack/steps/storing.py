"""Write the weights of a partition that is compiled for XNNPACK (backend_api/steps/storing.py)."""

from __future__ import annotations

from functools import partial

from modelbuild.step import Step
from modelbuild_rules.backend_api.steps.storing import store


def run(step: Step) -> None:
    store(step, _compile_whole)


def _compile_whole(step: Step) -> None:
    # Imported here because other partitions are stored without executorch, which takes seconds to import.
    from modelbuild_rules.backend_api.steps.compile import compile_partition
    from modelbuild_rules.backends.xnnpack.steps.compile import compile

    compile_partition(step, partial(compile, progress=step.progress))
