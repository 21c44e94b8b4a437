"""A rule: an attribute schema, and a function that turns a target's attributes into actions and providers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from modelbuild.api.attrs import Attrs
from modelbuild.api.context import Context
from modelbuild.api.providers import Provider

A = TypeVar("A", bound=Attrs)
Implementation = Callable[[Context[A]], Iterable[Provider]]


@dataclass(frozen=True, slots=True)
class Rule:
    """What `[[name]]` in a BUILD file stands for. `package` is the import name of the rule package it lives in."""

    name: str
    attrs: type[Attrs]
    implementation: Implementation[Any]
    package: str


def rule(*, attrs: type[A]) -> Callable[[Implementation[A]], Rule]:
    """Make a rule of a function: its name is the rule's. Any module of a rule package may hold rules."""

    def decorate(function: Implementation[A]) -> Rule:
        return Rule(function.__name__, attrs, function, function.__module__.partition(".")[0])

    return decorate
