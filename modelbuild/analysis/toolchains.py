"""The toolchains of a build: the Python that actions run in, by the toolchain's name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from modelbuild.actions import INSTALLED
from modelbuild.code.interpreter import Interpreter, installed
from modelbuild.labels import Label


class Toolchains:
    """The Python of each toolchain, by its name: a label as text, or INSTALLED. Safe for many threads.

    base     the toolchain of targets that name no toolchain
    for_all  the base is also the toolchain of targets that name a toolchain
    """

    def __init__(self, base: Label | None = None, for_all: bool = False) -> None:
        self.base = INSTALLED if base is None else str(base)
        self.for_all = for_all
        self._made: dict[str, Interpreter] = {}
        self._make: Callable[[Label], Interpreter] | None = None
        self._own = installed()
        self._lock = threading.Lock()

    def python(self, name: str) -> Interpreter:
        """Return the Python of a toolchain. Its environment is made if the cache lacks it. Without start(), it is
        modelbuild's own Python, because queries make no environment. Raises as make_toolchain() does."""
        if name == INSTALLED or self._make is None:
            return self._own
        with self._lock:
            if name not in self._made:
                self._made[name] = self._make(Label.parse_toolchain(name))
            return self._made[name]

    def start(self, make: Callable[[Label], Interpreter]) -> None:
        """Make the base; from now on, python() makes other toolchains. Raises as `make` does."""
        self._make = make
        self.python(self.base)

    def made(self) -> Iterator[Interpreter]:
        """Yield the Python of each toolchain that was used."""
        yield from list(self._made.values())
