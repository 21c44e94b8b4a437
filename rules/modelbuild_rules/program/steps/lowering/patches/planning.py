"""Show the progress of executorch's passes between the partitioned program and its memory plan.

A private name of executorch is patched temporarily; executorch_private.py lists it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from executorch.exir.program import _program

from modelbuild.step import Progress


@contextmanager
def passes_shown(progress: Progress) -> Iterator[None]:
    """Show each pass while the context lasts, and the memory plan after the last one."""
    listed = _program.edge_to_executorch_passes

    def shown(*given: Any, **options: Any) -> Iterator[Any]:
        passes = listed(*given, **options)
        for number, each in enumerate(passes, 1):
            progress("pass", number, len(passes))
            yield each
        progress("planning memory")

    with patch.object(_program, "edge_to_executorch_passes", shown):
        yield
