"""The extra of a rule package's distribution that installs an action's missing packages."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from importlib.util import find_spec

from modelbuild.code.distributions import Distribution, Distributions, Wanted, parse
from modelbuild.code.search_path import under


def extra_with(
    missing: Iterable[str], tools: Iterable[str], packages: Collection[str], distributions: Distributions
) -> str:
    """Return the package to install, such as `modelbuild[cuda]`, or ''. It is the extra that installs most of the
    missing packages. Ties are broken by the number of missing packages that the extra lists itself, then by the number
    of the action's tools that it lists, then by the smaller number of distributions.

    packages  import names of rule packages; only extras of their distributions count
    """
    lacked, asked = {parse(name)[0] for name in missing}, {parse(name)[0] for name in tools}
    best = ((0, 0, 0, 0), "")
    for found in distributions.all():
        if not _contains_any(found, packages):
            continue
        for extra in found.extras:
            direct = {name for name, _ in found.requires(frozenset((extra,)))}
            brought = _closure((found.name, frozenset((extra,))), distributions)
            rank = (len(brought & lacked), len(direct & lacked), len(direct & asked), -len(brought))
            if rank > best[0]:
                best = (rank, f"{found.name}[{extra}]")
    return best[1]


def distribution_of(package: str, distributions: Distributions) -> str | None:
    """Return the name of the distribution that contains a package; None for a package of a workspace."""
    return next((found.name for found in distributions.all() if _contains_any(found, (package,))), None)


def _contains_any(found: Distribution, packages: Collection[str]) -> bool:
    if found.project is not None:  # in editable mode, its RECORD lists no modules
        return any(under(folder, os.path.realpath(found.project)) for name in packages for folder in _folders(name))
    return any(found.records(f"{name}/") for name in packages)


def _folders(package: str) -> list[str]:
    """Return the real paths of an importable package's folders."""
    spec = find_spec(package)
    return [os.path.realpath(folder) for folder in (spec.submodule_search_locations or ()) if folder] if spec else []


def _closure(wanted: Wanted, distributions: Distributions) -> set[str]:
    """Return the names of a distribution and of all its requirements, if they are installed."""
    done: set[Wanted] = set()
    pending = [wanted]
    while pending:
        each = pending.pop()
        if each not in done:
            done.add(each)
            found = distributions.find(each[0])
            pending += found.requires(each[1]) if found is not None else ()
    return {name for name, _ in done}
