"""What a target tells the targets that depend on it."""

from __future__ import annotations

from dataclasses import dataclass

from modelbuild.actions import Artifact


class Provider:
    """Base of what rules return: frozen dataclasses, one of a class per target."""


class Platform(Provider):
    """Base of the provider that makes a target a device: what `--device` and the attribute `device` may name."""


@dataclass(frozen=True, slots=True)
class Files(Provider):
    """The files that `modelbuild build` lays out, and that another target's `Source` attribute gets."""

    files: tuple[Artifact, ...]
