"""What a target tells the targets that depend on it."""

from __future__ import annotations

from dataclasses import dataclass

from modelbuild.actions import Artifact, DerivedArtifact


class Provider:
    """Base of what rules return: frozen dataclasses, one of a class per target."""


class Platform(Provider):
    """Base of the provider that makes a target a device: what `--device` and the attribute `device` may name."""


class Runnable(Provider):
    """Base of the provider of a program that `modelbuild run` runs."""

    @property
    def input_names(self) -> tuple[str, ...] | None:
        """What the program takes; None where that is known only when it is built."""
        return None


@dataclass(frozen=True, slots=True)
class Files(Provider):
    """The files that `modelbuild build` lays out, and that another target's `Source` attribute gets."""

    files: tuple[Artifact, ...]


@dataclass(frozen=True, slots=True)
class TestAction(Provider):
    """Makes a target a test. Each report is an output of an action that tests something (one for each shard): JSON as
    docs/ci.md describes it. `modelbuild test` runs these actions, `modelbuild build` does not.

    flaky   whether a failure may be tried again without being asked for
    bisect  what looks for the cause of a failure, when asked for: JSON as docs/ci.md describes it
    """

    __test__ = False  # for pytest, which takes it for a class of tests

    reports: tuple[DerivedArtifact, ...]
    flaky: bool = False
    bisect: DerivedArtifact | None = None
