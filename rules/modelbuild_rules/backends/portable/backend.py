"""ExecuTorch's portable kernels as a backend: the table in a `backend_stack`."""

from __future__ import annotations

from typing import Literal

from modelbuild.api import Attrs
from modelbuild_rules.backends.backend import Backend, Operators


class Portable(Attrs):
    """ExecuTorch's portable kernels: any operator that they have, on the CPU. They stand last in a stack."""

    type: Literal["portable"]

    ops: Operators | None = None
    """The only operators that may be left to them. The build fails for any other one; by default none is refused."""


PORTABLE = Backend("backend", "portable", Portable, partition=("ops",))
