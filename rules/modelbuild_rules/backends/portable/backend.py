"""The portable backend, ExecuTorch's portable kernels: its table in a `backend_stack`."""

from __future__ import annotations

from typing import Annotated, Literal

from modelbuild.api import Attrs
from modelbuild_rules.backend_api.backend import Backend, Operators
from modelbuild_rules.backend_api.decides import Decides


class Portable(Attrs):
    """ExecuTorch's portable kernels for the CPU. It takes all remaining operators and must be the last."""

    type: Literal["portable"]
    """The kind of backend."""

    ops: Annotated[Operators | None, Decides("partition")] = None
    """Operators that it may take; any other fails the build. By default all."""


PORTABLE = Backend("backend", "portable", Portable, extras=("models",), runs_here=True)
