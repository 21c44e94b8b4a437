"""The distributions whose versions decide a step's output: those it names, and those that its Python inputs import."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache

from modelbuild.errors import EnvironmentProblem, LoadingError
from modelbuild.execution.step_code import imported_names

# Packages that an extra of ours brings, for the error's hint.
_EXTRAS = dict.fromkeys(("tensorrt", "torch_tensorrt"), "tensorrt")
_EXTRAS |= dict.fromkeys(
    ("tensorrt_rtx", "tensorrt_rtx_cu13_bindings", "tensorrt_rtx_cu13_libs", "torch_tensorrt_rtx"), "tensorrt-rtx"
)
_EXTRAS |= dict.fromkeys(
    ("nvidia_cuda_cccl", "nvidia_cuda_crt", "nvidia_cuda_nvcc", "nvidia_cuda_runtime", "triton", "ziglang"), "cuda"
)


def version(distribution: str, needed_by: str) -> str:
    """The installed version. Raises EnvironmentProblem that says what to install."""
    found = _version(distribution)
    if found is None:
        extra = _EXTRAS.get(canonical(distribution).replace("-", "_"), "models")
        raise EnvironmentProblem(
            f"{needed_by} needs the package '{distribution}', which is not installed; install modelbuild[{extra}]"
        )
    return found


def installed(distribution: str) -> str | None:
    """The installed version, if it is installed."""
    return _version(distribution)


@cache
def _version(distribution: str) -> str | None:
    from importlib import metadata

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
    tops -= sys.stdlib_module_names
    found: set[str] = set()
    skipped = {canonical(name) for name in known}
    pending = [owner for top in tops if canonical(top) not in skipped for owner in _owners(top)]
    while pending:
        name = pending.pop()
        if name in found or name in skipped or _version(name) is None:
            continue
        found.add(name)
        pending += _requirements(name)
    return tuple(sorted(found))


@cache
def _owners(top: str) -> tuple[str, ...]:
    """The distributions that a top-level module comes from; none for one that is not installed."""
    try:
        if importlib.util.find_spec(top) is None:
            return ()
    except (ImportError, ValueError):
        return ()
    if _version(top) is not None and not _is_namespace(top):
        return (canonical(top),)
    return tuple(canonical(owner) for owner in _all_owners().get(top, ()))


def _is_namespace(top: str) -> bool:
    """Whether several distributions may share the module."""
    spec = importlib.util.find_spec(top)
    return spec is None or spec.origin is None


@cache
def _all_owners() -> Mapping[str, list[str]]:
    # Reads the file list of everything installed: seconds, so only for modules that are not called as their owner is.
    from importlib import metadata

    return metadata.packages_distributions()


@cache
def _requirements(distribution: str) -> tuple[str, ...]:
    """Names of what a distribution requires, optional extras left out."""
    from importlib import metadata

    lines = [line for line in metadata.requires(distribution) or [] if "extra ==" not in line]
    names = [re.match(r"[A-Za-z0-9._-]+", line) for line in lines]
    return tuple(canonical(match[0]) for match in names if match)
