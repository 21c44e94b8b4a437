"""Checks of the toolchains that a workspace declares. They make no environment."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

from modelbuild.analysis.analyze import Analyzer
from modelbuild.api.probe import Finding
from modelbuild.api.providers import PythonToolchain
from modelbuild.errors import EnvironmentProblem, ModelbuildError
from modelbuild.labels import Label
from modelbuild.toolchain.lock_file import Lock, read_lock
from modelbuild.toolchain.make import Wanted, find
from modelbuild.toolchain.pythons import find_python
from modelbuild.toolchain.uv import find_uv
from modelbuild.wording import count, size_text

_RULE = "python_toolchain"


def check_toolchains(analyzer: Analyzer, tools: Collection[str]) -> Iterator[Finding]:
    """Yield a finding for each toolchain of a workspace, the default first, with its versions of `tools`."""
    default = analyzer.loader.workspace.config.toolchain
    labels = dict.fromkeys(() if default is None else (default,))
    for package in analyzer.loader.packages_below(""):
        try:
            targets = analyzer.loader.package(package).targets.values()
        except ModelbuildError:
            continue  # builds report it
        labels.update((target.label, None) for target in targets if target.rule == _RULE)
    for label in labels:
        name = f"toolchain {label}" + (" (default)" if label == default else "")
        try:
            yield _check(analyzer, label, name, tools)
        except ModelbuildError as error:
            place = f"{error.location}: " if getattr(error, "location", None) else ""
            yield Finding(name, "error", f"{place}{getattr(error, 'message', error)}")


def _check(analyzer: Analyzer, label: Label, name: str, tools: Collection[str]) -> Finding:
    """Return a toolchain's finding. Raises ModelbuildError for an invalid lock file or Python."""
    workspace = analyzer.loader.workspace
    found: PythonToolchain = analyzer.base_toolchain(label)
    lock = read_lock(workspace.root, found.lock.path, found.from_source)
    python = find_python(found.python, str(label))
    made = find(Wanted(str(label), lock, python, found.from_source), workspace.config.cache_dir)
    about = f"{_versions(lock, tools)} of {count(lock.packages, 'package')} in {lock.path}, Python {python.version}"
    if made is not None:
        return Finding(name, "ok", f"{about}, made: {size_text(made.bytes)}")
    try:
        find_uv()
    except EnvironmentProblem as error:
        return Finding(name, "error", f"{about}, not made: {error}")
    fetch = f"modelbuild fetch //... --toolchain {label}" if label.repository else f"modelbuild fetch {label}"
    return Finding(name, "ok", f"{about}, not made", f"the next build makes it, or {fetch}")


def _versions(lock: Lock, tools: Collection[str]) -> str:
    pins = filter(None, map(partial(Lock.pin, lock), dict.fromkeys(tools)))
    return ", ".join(sorted(f"{pin.name} {pin.version}" for pin in pins)) or "no package of a backend"
