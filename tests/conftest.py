"""Shared by all tests: hypothesis without clocks, and GPU tests that say so when they are not run."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("modelbuild", deadline=None, derandomize=True)
settings.load_profile("modelbuild")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not Path("/dev/nvidiactl").exists():
        pytest.skip("not run: needs a CUDA device, and this machine has none")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout that the tests are in."""
    return Path(__file__).parents[1]
