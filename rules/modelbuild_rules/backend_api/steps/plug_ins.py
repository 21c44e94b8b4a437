"""Load the object that a module of a backend or a quantizer defines."""

from __future__ import annotations

import importlib
from typing import TypeVar

from modelbuild.step import StepError

T = TypeVar("T")


def plug_in(module: str, name: str, kind: type[T]) -> T:
    """Return the object of a type that a module defines by this name. Raises StepError if it defines none."""
    expected = f"expected an instance of a subclass of {kind.__name__}, of {kind.__module__}"
    found = vars(importlib.import_module(module)).get(name)
    if found is None:
        raise StepError(f"{module} has no {name}; {expected}")
    if not isinstance(found, kind):
        raise StepError(f"{name} of {module} is a {type(found).__name__}; {expected}")
    return found
