"""Check that a stack of backends and a device run the operators of a quantized model."""

from __future__ import annotations

from collections.abc import Sequence

from modelbuild_rules.backend_api.backend import DeviceFacts
from modelbuild_rules.providers import ExportedMethod, StackEntry


def unfit(model: ExportedMethod, stack: Sequence[StackEntry]) -> str:
    """Return why a stack does not fit the recipe of a model; '' if it fits or the model is in floating point."""
    backends = [(entry.backend.name, entry.attributes) for entry in stack]
    for each in model.quantizers:
        if problem := each.quantizer.problem(each.attributes, backends):
            return f"the model does not fit the stack: {problem}"
    return ""


def unfit_device(model: ExportedMethod, facts: DeviceFacts) -> str:
    """Return why a device does not fit the recipe of a model, and the expected device; '' if it fits."""
    problems = (each.quantizer.device_problem(each.attributes, facts) for each in model.quantizers)
    return next(filter(None, problems), "")
