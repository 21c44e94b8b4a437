"""Names of the methods of models and programs, and of the methods' parts. The name `forward` is omitted."""

from __future__ import annotations

FORWARD = "forward"


def qualified(method: str, name: str) -> str:
    """Return the name of a method's part among the parts of all methods: `encode.p0`; `p0` for `forward`."""
    return name if method == FORWARD else f"{method}.{name}"


def named(action: str, method: str) -> str:
    """Return the name of a method's action: `export:encode`; `export` for `forward`."""
    return action if method == FORWARD else f"{action}:{method}"


def phrase(method: str, model: object) -> str:
    """Return a model's method for a message: `encode of :net`; `:net` for `forward`."""
    return str(model) if method == FORWARD else f"{method} of {model}"
