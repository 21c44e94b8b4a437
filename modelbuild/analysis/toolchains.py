"""The toolchains of targets: the Python that the actions of each one run in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from modelbuild.code.interpreter import Interpreter, installed
from modelbuild.labels import Label
from modelbuild.workspace.flags import INSTALLED


class Toolchains:
    """The toolchain of each analysed target, by name: a label as text, or INSTALLED for the Python of modelbuild. Safe
    for many threads.

    base     the toolchain of targets that name none
    for_all  the base is also that of targets that name one
    """

    def __init__(self, base: Label | None = None, for_all: bool = False) -> None:
        self.base = INSTALLED if base is None else str(base)
        self.for_all = for_all
        self._names: dict[str, str] = {}
        self._made: dict[str, Interpreter] = {}
        self._make: Callable[[Label], Interpreter] | None = None
        self._lock = threading.Lock()

    def declare(self, owner: str, name: str) -> None:
        """State the toolchain of a target, by its id."""
        if name != self.base:
            self._names[owner] = name

    def name(self, owner: str) -> str:
        """Return the toolchain of a target, by its id."""
        return self._names.get(owner, self.base)

    def python(self, owner: str) -> Interpreter:
        """Return the Python that a target's actions run in. Its environment is made if the cache lacks it. Without
        start(), it is the Python of modelbuild: queries make nothing. Raises as make_toolchain() does."""
        return self._python(self._names.get(owner, self.base))

    def start(self, make: Callable[[Label], Interpreter]) -> None:
        """Make the base, and from now on other toolchains where python() is called. Raises as `make` does."""
        self._make = make
        self._python(self.base)

    def make_all(self) -> None:
        """Make the toolchains of all analysed targets. Raises as make_toolchain() does."""
        for name in dict.fromkeys(self._names.values()):
            self._python(name)

    def made(self) -> Iterator[Interpreter]:
        """Yield the Python of each toolchain that was used."""
        yield from list(self._made.values())

    def _python(self, name: str) -> Interpreter:
        if name == INSTALLED or self._make is None:
            return installed()
        with self._lock:
            if name not in self._made:
                self._made[name] = self._make(Label.parse_toolchain(name))
            return self._made[name]
