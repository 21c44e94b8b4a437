"""Shared by all tests: hypothesis without clocks, and GPU tests that say so when they are not run."""

from __future__ import annotations

import importlib.util
import signal
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings

settings.register_profile("modelbuild", deadline=None, derandomize=True)
settings.load_profile("modelbuild")

# What a shell starts in the background ignores Ctrl-C, and so would the builds that tests interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not Path("/dev/nvidiactl").exists():
        pytest.skip("not run: needs a CUDA device, and this machine has none")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout that the tests are in."""
    return Path(__file__).parents[1]


@pytest.fixture(scope="session")
def ci_formats() -> ModuleType:
    """What holds files of a CI job to their formats: ci_formats.py."""
    spec = importlib.util.spec_from_file_location("ci_formats", Path(__file__).with_name("ci_formats.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
