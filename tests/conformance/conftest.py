"""The C++ runtime, and warm libraries, for attempts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.attempt import Outcome, attempt, warm
from tests.conformance.kinds import Kind


@pytest.fixture(scope="session")
def attempted(builder: Any, repository: Path) -> Callable[[Kind], dict[str, Outcome]]:
    """Return a function that returns the outcome of a kind by stack."""
    runtime = builder.build(repository / "build/runtime", tests=True)
    warm()
    return partial(attempt, runtime=runtime)
