"""What the emulator and records of kernels need of a kernel's request."""

from __future__ import annotations

from typing import Any


def kernel_facts(request: Any) -> dict[str, Any]:
    """Return a request's warps, the types of its arguments by name, the values of constant arguments, and the names of
    the others."""
    names = list(request.signature)
    constants = {names[place]: value for (place,), value in request.constants}
    return {
        "warps": request.options["num_warps"],
        "signature": dict(request.signature),
        "constants": constants,
        "arguments": [
            name for name, kind in request.signature.items() if kind != "constexpr" and name not in constants
        ],
    }
