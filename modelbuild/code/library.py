"""The installed distributions of modelbuild-runtime, for steps in a toolchain whose lock file lacks them."""

from __future__ import annotations

from modelbuild.code.distributions import Distribution, Distributions, canonical
from modelbuild.code.interpreter import Interpreter, installed
from modelbuild.workspace.workspace import LIBRARY

_NAME = canonical(LIBRARY)


class Library(Distributions):
    """modelbuild-runtime, and the distributions of its C++ runtime for other architectures, that are installed with
    modelbuild."""

    def find(self, name: str) -> Distribution | None:
        return super().find(name) if is_library(name) else None


def is_library(name: str) -> bool:
    """Return whether a distribution of modelbuild-runtime has this canonical name."""
    return name == _NAME or name.startswith(f"{_NAME}-")


def packages_beside(interpreter: Interpreter) -> dict[str, str]:
    """Return the folders of the packages of modelbuild-runtime installed with modelbuild, by import name; empty if the
    toolchain's Python has modelbuild-runtime, or if it is not installed."""
    distributions = distributions_of(interpreter)
    found = distributions.find(_NAME) if distributions.is_beside(_NAME) else None
    return {name: f"{found.source}/{name}" for name in found.packages} if found is not None else {}


def distributions_of(interpreter: Interpreter) -> Distributions:
    """Return the distributions that steps of a Python use."""
    beside = Library(installed().path, interpreter.markers) if interpreter.toolchain else None
    return Distributions(interpreter.path, interpreter.markers, beside)
