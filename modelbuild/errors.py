"""Errors that users see, on one line: place, problem, expected value and the nearest correct spelling."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the command line. They match Bazel's where Bazel has an equivalent."""

    OK = 0
    BUILD_FAILED = 1
    USAGE = 2
    LOADING_FAILED = 3
    TESTS_FAILED = 4
    LOADING_AND_MORE_FAILED = 5
    INTERRUPTED = 8
    PUBLISH_FAILED = 34
    ENVIRONMENT = 36
    INTERNAL = 37

    def with_loading_errors(self) -> ExitCode:
        """Return the code of a build that skipped targets that could not be loaded, and otherwise ends with this
        code."""
        return ExitCode.LOADING_FAILED if self is ExitCode.OK else ExitCode.LOADING_AND_MORE_FAILED


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A place in a file: path relative to the workspace, line and column counted from 1."""

    path: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


class ModelbuildError(Exception):
    """An error of the user or of the machine, explained in one line and never printed as a traceback."""

    exit_code = ExitCode.INTERNAL

    def __init__(self, message: str, location: Location | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.location = location

    def __str__(self) -> str:
        return f"{self.location}: {self.message}" if self.location else self.message


class UsageError(ModelbuildError):
    """The command line refers to a missing file, target or other object, or combines options that exclude each
    other."""

    exit_code = ExitCode.USAGE


class LoadingError(ModelbuildError):
    """MODELBUILD.toml, a BUILD.toml, a rule package or an attribute of a target is wrong."""

    exit_code = ExitCode.LOADING_FAILED


class BuildError(ModelbuildError):
    """An action failed."""

    exit_code = ExitCode.BUILD_FAILED


class EnvironmentProblem(ModelbuildError):
    """The machine lacks something: a package, disk space, a permission."""

    exit_code = ExitCode.ENVIRONMENT


class ResultDiffers(EnvironmentProblem):
    """The blob of a cached result is missing, and running the action again gave a different result."""


# Candidates and words longer than this are not compared: the time grows with the square of the length.
_LONGEST = 200


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate most similar to `word`, or None when none is near."""
    import difflib

    if len(word) > _LONGEST:
        return None
    known = [each for each in sorted(candidates, reverse=True) if len(each) <= _LONGEST]
    lowered = {each.lower(): each for each in known}
    found = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    return lowered[found[0]] if found else None


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """Return `; did you mean 'x'?`, or the empty string when no candidate is near."""
    best = nearest(word, candidates)
    return "" if best is None else f"; did you mean '{best}'?"
