"""Hide a step's GPU from torch: the GPU only times kernels, and tracing must not depend on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch


@contextmanager
def no_gpu() -> Iterator[None]:
    """Make torch.cuda.is_available() return False while the context lasts, so that tracing saves no GPU state."""
    import torch

    with patch.object(torch.cuda, "is_available", lambda: False):
        yield
