"""Explain why a program differs from its module: the first wrong node, and the attribute that leaves the node to other
backends."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from modelbuild.step import Step, StepError
from modelbuild_rules.model.steps.calls.differences import allowed
from modelbuild_rules.model.steps.eager.entry import first_line
from modelbuild_rules.testing.steps.bisect.finding import Finding
from modelbuild_rules.testing.steps.parity.programs import Arrays, Call
from modelbuild_rules.testing.steps.parity.runners import ProgramRunner
from modelbuild_runtime.errors import ProgramError

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import Comparison
    from modelbuild_rules.testing.documents import ToleranceParams


def explain(
    step: Step, runner: ProgramRunner, calls: Sequence[Call], expected: Sequence[Arrays], output: str, facts: Comparison
) -> str:
    """Return the first wrong node of the last call, as text."""
    limit = allowed(facts)
    tolerance: ToleranceParams = {"abs": limit * 1e-3, "rel": limit, "cosine": None, "ignore": False}
    if facts["quantized"]:
        tolerance = {"abs": None, "rel": None, "cosine": 0.99, "ignore": False}
    step.progress("searching the first wrong node")
    with TemporaryDirectory() as folder:
        try:
            finding = _search(step, runner, calls, expected, tolerance, Path(folder))
        except (ProgramError, StepError) as error:
            return f"the first wrong node was not found: {error}"
        except Exception as error:  # executorch cannot lower every program with all tensors as outputs
            return f"the first wrong node was not found: {type(error).__name__}: {first_line(error)}"
    return _advised(finding)


def _advised(finding: Finding) -> str:
    """Return a finding with the attribute that leaves its node to the next backend. Names the node as `named` of
    backend_api/steps/nodes.py does."""
    node = finding.node
    if node is None:
        return finding.message
    found = f"the first wrong node is node {node.name} from {node.name} ({node.operator}){node.where}"
    if not node.backend:
        return found
    return f'{found}; exclude_ops = ["{node.operator}"] of the backend {node.backend} leaves it to the next backend'


def _search(
    step: Step,
    runner: ProgramRunner,
    calls: Sequence[Call],
    expected: Sequence[Arrays],
    tolerance: ToleranceParams,
    folder: Path,
) -> Finding:
    places = folder / "debug.json"
    places.write_text(json.dumps({}))  # the engine adds places to the message, so that no key contains them
    reference = {
        f"reference.{method}.{name}": (places,) if name == "debug" else step.inputs[f"lowered.{method}.{name}"]
        for method in step.params["methods"]
        for name in ("program", "weights", "debug")
    }
    with _quiet():
        from modelbuild_rules.testing.steps.bisect.search import Failed  # imports torch
        from modelbuild_rules.testing.steps.bisect.search_here import search

        failed = Failed(list(calls), list(expected), tolerance)
        found, _ = search(replace(step, inputs={**step.inputs, **reference}), runner, failed, folder)
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the warnings of torch and executorch about themselves."""
    logging.getLogger("torch.utils._pytree").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
