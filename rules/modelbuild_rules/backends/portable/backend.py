"""The portable backend, ExecuTorch's portable kernels: its table in a `backend_stack`."""

from __future__ import annotations

from typing import Literal

from modelbuild.api import Attrs
from modelbuild_rules.backend_api.backend import Backend, Operators


class Portable(Attrs):
    """ExecuTorch's portable kernels for the CPU. This backend takes all remaining operators and must be the last."""

    type: Literal["portable"]
    """The kind of backend."""

    ops: Operators | None = None
    """Operators that may run on portable kernels; any other fails the build. By default all are allowed."""


PORTABLE = Backend("backend", "portable", Portable, extras=("models",), partition=("ops",), runs_here=True)
