"""Warm libraries for attempts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.attempt import Outcome, attempt, warm
from tests.conformance.kinds import Kind


@pytest.fixture(scope="session")
def attempted() -> Callable[[Kind], dict[str, Outcome]]:
    """Return a function that returns the outcome of a kind by stack."""
    warm()
    return attempt
