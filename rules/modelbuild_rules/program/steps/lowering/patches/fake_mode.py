"""Lower a program without inputs: executorch's passes then make a mode of fake tensors each, and torch accepts one.

Private names of executorch are patched temporarily; executorch_private.py lists them. Of torch, checked on 2.14.0:
torch._guards.detect_fake_mode. Not patched.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from executorch.exir import pass_base
from torch._guards import detect_fake_mode


@contextmanager
def one_fake_mode(program: Any) -> Iterator[None]:
    """Let passes use the mode of a program's tensors while the context lasts."""
    mode = detect_fake_mode([node.meta.get("val") for node in program.graph.nodes])
    if mode is None:
        yield
        return

    def known(*, allow_non_fake_inputs: bool = False) -> Any:
        mode.allow_non_fake_inputs = allow_non_fake_inputs
        return mode

    with patch.object(pass_base, "FakeTensorMode", known):
        yield
