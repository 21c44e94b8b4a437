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
    room     import name of the package with the rule's module and, in its folder `steps`, the rule's steps
    example  a target in a BUILD file, for `modelbuild help`; '' for the required attributes alone
    toolchain_from  attributes: a target without `toolchain` takes that of the target in the first of them
    device_from     attributes: the same for `device`
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
        """The import name of its rule package."""
        return self.room.partition(".")[0]


def rule(
    *, attrs: type[A], example: str = "", toolchain_from: Sequence[str] = (), device_from: Sequence[str] = ()
) -> Callable[[Implementation[A]], Rule]:
    """Make a `Rule` of a function, with the function's name. A test takes its program's toolchain by `toolchain_from`,
    and a bundle its program's device by `device_from`."""

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
