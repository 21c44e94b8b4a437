"""Keeps torch from a GPU that a step sees: it is there to time kernels, and what is traced must not depend on one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch


@contextmanager
def no_gpu() -> Iterator[None]:
    """torch.cuda.is_available() is false while the context lasts: tracing then saves no state of a GPU's."""
    import torch

    with patch.object(torch.cuda, "is_available", lambda: False):
        yield
