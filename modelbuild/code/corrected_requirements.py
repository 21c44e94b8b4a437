"""Requirements of distributions for keys: the requirements that they declare, corrected by the built-in rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import tomli

from modelbuild.code.distributions import Distribution, Wanted
from modelbuild.workspace.workspace import BUILT_IN

REQUIREMENTS = "requirements.toml"
"""The name of the file with the corrections, in the folder of the built-in rules."""


@dataclass(frozen=True, slots=True)
class Corrections:
    """Corrections by canonical names of distributions.

    unused  requirements that no step imports, each with its use
    used    distributions that are imported if they are installed, and that are not required
    """

    unused: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    used: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def requires(self, found: Distribution, extras: frozenset[str]) -> Iterator[Wanted]:
        """Yield the corrected requirements of a distribution, with the wanted extras."""
        unused = self.unused.get(found.name, ())
        yield from (wanted for wanted in found.requires(extras) if wanted[0] not in unused)
        yield from ((name, frozenset()) for name in self.used.get(found.name, ()))


NO_CORRECTIONS = Corrections()


def corrections(packages: Mapping[str, Path]) -> Corrections:
    """Return the corrections in the folder of the built-in rules, if `packages` (import name -> folder) has them."""
    return _read(packages[BUILT_IN]) if BUILT_IN in packages else NO_CORRECTIONS


@cache
def _read(folder: Path) -> Corrections:
    read = tomli.loads((folder / REQUIREMENTS).read_text())
    return Corrections(read["unused"], {name: tuple(names) for name, names in read["used"].items()})
