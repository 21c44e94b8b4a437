"""Workspaces to build: see workspace.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.session.checked_workspace import RULES, CheckedWorkspace


@pytest.fixture
def rules() -> Mapping[str, str]:
    """Return a rule package with the rule `join`, and the MODELBUILD.toml that names it."""
    return RULES


@pytest.fixture
def make_workspace(tmp_path: Path) -> Callable[[Mapping[str, str]], CheckedWorkspace]:
    """Return a function that makes a workspace of some files."""
    return lambda files: CheckedWorkspace(tmp_path, {"MODELBUILD.toml": "", **files})
