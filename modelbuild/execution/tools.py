"""The distributions whose versions decide a step's output: those it names, and those that its Python inputs import."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata

from modelbuild.errors import EnvironmentProblem, LoadingError
from modelbuild.execution.step_code import imported_names

# Packages that an extra of ours brings, for the error's hint.
_EXTRAS = {"torch_tensorrt_rtx": "tensorrt-rtx", "tensorrt_rtx": "tensorrt-rtx", "torch_tensorrt": "tensorrt"}


def version(distribution: str, needed_by: str) -> str:
    """The installed version. Raises EnvironmentProblem that says what to install."""
    found = _version(distribution)
    if found is None:
        extra = _EXTRAS.get(canonical(distribution).replace("-", "_"), "models")
        raise EnvironmentProblem(
            f"{needed_by} needs the package '{distribution}', which is not installed; install modelbuild[{extra}]"
        )
    return found


@cache
def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def canonical(name: str) -> str:
    """A distribution's name as PyPA normalizes it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def imported_distributions(sources: Mapping[str, bytes], known: Iterable[str]) -> tuple[str, ...]:
    """The distributions that Python sources (path -> bytes) import, with what these require in turn, but for what
    `known` names already. The standard library's modules and ones not installed are left out (the step itself fails
    on the latter). Raises LoadingError for a source that is not Python."""
    tops: set[str] = set()
    for path, source in sources.items():
        try:
            names = imported_names(source)
        except SyntaxError as error:
            raise LoadingError(f"{path}:{error.lineno}:{error.offset}: not Python: {error.msg}") from None
        tops |= {name.partition(".")[0] for name, level in names if level == 0}
    tops -= set(sys.stdlib_module_names)
    owners = _owners() if tops else {}
    found: set[str] = set()
    skipped = {canonical(name) for name in known}
    pending = [canonical(owner) for top in tops for owner in owners.get(top, ())]
    while pending:
        name = pending.pop()
        if name in found or name in skipped or _version(name) is None:
            continue
        found.add(name)
        pending += _requirements(name)
    return tuple(sorted(found))


@cache
def _owners() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()


@cache
def _requirements(distribution: str) -> tuple[str, ...]:
    """Names of what a distribution requires, optional extras left out."""
    lines = [line for line in metadata.requires(distribution) or [] if "extra ==" not in line]
    names = [re.match(r"[A-Za-z0-9._-]+", line) for line in lines]
    return tuple(canonical(match[0]) for match in names if match)
