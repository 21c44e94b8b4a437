"""Keeps torch from a GPU that the machine has: what is made must not depend on one, and a step can't use it.

Steps are forked from a process that has imported torch and asked it for GPUs; CUDA can't be used after that.
"""

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
