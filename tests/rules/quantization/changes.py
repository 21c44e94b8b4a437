"""Changes of a workspace, the actions that they run again, and calibration data, for tables of reruns."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.workspace_builder import Workspace

SAMPLES = """
import numpy as np


def samples(count):
    for number in range(count):
        yield {"x": np.random.uniform(-1, 1, (2, 8)).astype(np.float32)}
"""


class Row(NamedTuple):
    """A change, and the ids of the actions that run after it."""

    change: Callable[[Workspace], None]
    ran: set[str]


def edited(name: str, old: str, new: str) -> Callable[[Workspace], None]:
    """Return a change of a file."""
    return lambda workspace: workspace.edit(name, old, new)
