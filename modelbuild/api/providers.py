"""Providers: the data that a target passes to the targets that depend on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from modelbuild.actions import Artifact, DerivedArtifact


class Provider:
    """Base of a rule's return values: frozen dataclasses, at most one of each class per target.

    made_by  the rules whose targets have it, such as "backend_stack", for help, and for errors about other targets
    """

    made_by: ClassVar[tuple[str, ...]] = ()


class Platform(Provider):
    """Base of the provider of a device, which `--device` and the attribute `device` may name."""


class Runnable(Provider):
    """Base of the provider of a program for `modelbuild run`."""

    @property
    def input_names(self) -> tuple[str, ...] | None:
        """The names of the program's inputs; None if they are known only after it is built."""
        return None


@dataclass(frozen=True, slots=True)
class Files(Provider):
    """The files that `modelbuild build` lays out, and that other targets get for a `Source` attribute."""

    files: tuple[Artifact, ...]


@dataclass(frozen=True, slots=True)
class Check(Provider):
    """The files that `modelbuild check` builds, and `modelbuild build` does not: the actions that make them find out in
    seconds why a target can't be built. A failed one explains every reason."""

    files: tuple[Artifact, ...]


@dataclass(frozen=True, slots=True)
class TestAction(Provider):
    """Makes a target a test. Each report is an output of a test action (one per shard): JSON as described in
    docs/reference/ci.md. `modelbuild test` runs these actions, `modelbuild build` does not.

    flaky      whether a failed test is run again without being requested
    filters    whether the actions run only the cases that `ctx.test_filter` selects
    unmatched  the reason why it selects no case, if that is known before the test runs; there are no reports then
    bisect     the search for the cause of a failure, on request: JSON as described in docs/reference/ci.md
    """

    __test__ = False  # pytest would collect it as a test class

    reports: tuple[DerivedArtifact, ...]
    flaky: bool = False
    bisect: DerivedArtifact | None = None
    filters: bool = False
    unmatched: str = ""
