"""A rule: an attribute schema, and a function that turns a target's attributes into actions and providers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from modelbuild.api.attrs import Attrs
from modelbuild.api.context import Context
from modelbuild.api.providers import Provider

A = TypeVar("A", bound=Attrs)
Implementation = Callable[[Context[A]], Iterable[Provider]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of target: `[[name]]` in a BUILD file.

    attrs    the schema of a target's attributes
    room     import name of the package that holds the rule's module; the rule's steps are in its folder `steps`
    example  a target of the rule in a BUILD file, for `modelbuild help`; '' for the required attributes alone
    toolchain_from  attributes: a target without `toolchain` takes the toolchain of the target in the first of them
    device_from     attributes: a target without `device` takes the device of the target in the first of them
    """

    name: str
    attrs: type[Attrs]
    implementation: Implementation[Any]
    room: str
    example: str = ""
    toolchain_from: tuple[str, ...] = ()
    device_from: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        """The import name of the rule package that the rule belongs to."""
        return self.room.partition(".")[0]


def rule(
    *, attrs: type[A], example: str = "", toolchain_from: Sequence[str] = (), device_from: Sequence[str] = ()
) -> Callable[[Implementation[A]], Rule]:
    """Make a rule of a function, with the function's name. Any module of a rule package may define rules, except in a
    folder called `steps`. `example` is a target in a BUILD file, `[[name_of_the_rule]]`. A target without the attribute
    `toolchain` takes the toolchain of the target that an attribute of `toolchain_from` names: a test takes its
    program's. `device_from` does the same for `device`: a bundle takes its program's device."""

    def decorate(function: Implementation[A]) -> Rule:
        room = _room(function.__module__)
        return Rule(
            function.__name__, attrs, function, room, example.lstrip("\n"), tuple(toolchain_from), tuple(device_from)
        )

    return decorate


def _room(module: str) -> str:
    """Return the package of a module. The module of a rule in a package's `__init__.py` is the package itself."""
    loaded = sys.modules.get(module)
    return module if hasattr(loaded, "__path__") else module.rpartition(".")[0] or module
