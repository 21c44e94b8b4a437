"""Workspaces to build: see world.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.build.world import RULES, World


@pytest.fixture
def rules() -> Mapping[str, str]:
    """A rule package with the rule `join`, and the MODELBUILD.toml that names it."""
    return RULES


@pytest.fixture
def make_world(tmp_path: Path) -> Callable[[Mapping[str, str]], World]:
    """A function that makes a workspace of some files."""
    return lambda files: World(tmp_path, {"MODELBUILD.toml": "", **files})
