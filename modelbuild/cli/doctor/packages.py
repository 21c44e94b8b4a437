"""Checks of Python and of installed packages: modelbuild's own packages, and the packages of each backend."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from modelbuild.api.extension import Extension
from modelbuild.api.probe import Finding

_OWN = "modelbuild"


def check_python() -> Finding:
    """Return whether modelbuild supports this version of Python."""
    version = platform.python_version()
    wanted = metadata.metadata(_OWN)["Requires-Python"] or ""
    if not SpecifierSet(wanted).contains(version, prereleases=True):
        return Finding("python", "error", f"{version}; expected {wanted}", "make an environment of another Python")
    classifiers = metadata.metadata(_OWN).get_all("Classifier") or ()
    tested = [
        each.rpartition(" ")[2] for each in classifiers if each.startswith("Programming Language :: Python :: 3.")
    ]
    if tested and version.rpartition(".")[0] not in tested:
        fix = "if something fails, use a version that is tested"
        return Finding("python", "warning", f"{version}; tested are {', '.join(tested)}", fix)
    return Finding("python", "ok", version)


def check_engine() -> Finding:
    """Return whether the packages that modelbuild always needs are installed, in supported versions."""
    missing, wrong = _compare(requirements(_OWN, ""))
    text = "; ".join([*(f"{name} is not installed" for name in missing), *wrong])
    if text:
        return Finding("modelbuild", "error", text, f"pip install {_OWN}")
    return Finding("modelbuild", "ok", metadata.version(_OWN))


def check_backends(extensions: Iterable[tuple[Extension, str | None]]) -> Iterator[Finding]:
    """Yield a finding for each backend. `extensions` are backends, each with the distribution that contains it; None if
    the workspace contains it."""
    complete = False
    for extension, distribution in extensions:
        if extension.extras and distribution is not None:
            finding, installed = _check_extras(extension, distribution)
            complete |= installed
            yield finding
        elif extension.tools:
            yield _check_tools(extension)
    if not complete:
        fix = f"pip install '{_OWN}[models]'"
        yield Finding("backends", "error", "the packages of no backend are complete; models can't be built", fix)


def _check_extras(extension: Extension, distribution: str) -> tuple[Finding, bool]:
    """Return the finding of a backend, and whether the packages of one of its extras are installed."""
    missing: list[str] = []
    for extra in extension.extras:
        wanted = requirements(distribution, extra)
        lacking, wrong = _compare(wanted)
        install = f"pip install '{distribution}[{extra}]'"
        if wanted and not lacking:
            if wrong:
                return Finding(_name(extension), "error", "; ".join(wrong), install), True
            pinned = [name for name, each in wanted.items() if any(s.operator == "==" for s in each.specifier)]
            versions = ", ".join(f"{name} {metadata.version(name)}" for name in sorted(pinned))
            return Finding(_name(extension), "ok", versions), True
        missing = missing or lacking
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    lacks = f" (no {missing[0]}{more})" if missing else ""
    choices = " or ".join(f"pip install '{distribution}[{extra}]'" for extra in extension.extras)
    return Finding(_name(extension), "ok", f"not installed{lacks}", choices), False


def _check_tools(extension: Extension) -> Finding:
    """Return the finding of a backend that names no extras."""
    missing, _ = _compare({name: Requirement(name) for name in extension.tools})
    if missing:
        text = f"{', '.join(missing)} not installed"
        return Finding(_name(extension), "warning", text, f"pip install {' '.join(missing)}, unless it is not used")
    return Finding(_name(extension), "ok", ", ".join(f"{each} {metadata.version(each)}" for each in extension.tools))


def _name(extension: Extension) -> str:
    return f"{extension.point} {extension.name}"


def _compare(wanted: Mapping[str, Requirement]) -> tuple[list[str], list[str]]:
    """Return the names of missing packages, and a text for each package with a wrong version."""
    missing, wrong = [], []
    for name, requirement in wanted.items():
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            missing.append(name)
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{name} {version} is installed; expected {requirement.specifier}")
    return missing, wrong


def requirements(distribution: str, extra: str) -> dict[str, Requirement]:
    """Return a distribution's requirements with an extra, or without one (''), by name. Extras that the extra includes
    are expanded."""
    found: dict[str, Requirement] = {}
    waiting, done = [extra], {extra}
    while waiting:
        environment = {"extra": waiting.pop()}
        for text in metadata.requires(distribution) or ():
            requirement = Requirement(text)
            if requirement.marker is not None and not requirement.marker.evaluate(environment):
                continue
            if requirement.marker is None and extra:
                continue  # also needed without the extra
            name = _canonical(requirement.name)
            if name == _canonical(distribution):
                new = {_canonical(each) for each in requirement.extras} - done
                waiting += new
                done |= new
            else:
                found[name] = requirement
    return found


def _canonical(name: str) -> str:
    from modelbuild.code.distributions import canonical

    return canonical(name)
