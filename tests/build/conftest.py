"""Workspaces to build: see world.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.build.world import RULES, World


@pytest.fixture
def rules() -> Mapping[str, str]:
    """Return a rule package with the rule `join`, and the MODELBUILD.toml that names it."""
    return RULES


@pytest.fixture
def make_world(tmp_path: Path) -> Callable[[Mapping[str, str]], World]:
    """Return a function that makes a workspace of some files."""

    def make(files: Mapping[str, str]) -> World:
        world = World(tmp_path)
        world.write({"MODELBUILD.toml": "", **files})
        return world

    return make
