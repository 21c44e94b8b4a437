"""Names of the methods of models and programs, and of their parts. That of `forward` is not written."""

from __future__ import annotations

FORWARD = "forward"


def qualified(method: str, name: str) -> str:
    """Return the name of a thing of a method among those of all methods: `encode.p0`; `p0` for that of `forward`."""
    return name if method == FORWARD else f"{method}.{name}"


def named(action: str, method: str) -> str:
    """Return the name of a method's action: `export:encode`; `export` for that of `forward`."""
    return action if method == FORWARD else f"{action}:{method}"


def phrase(method: str, model: object) -> str:
    """Return a model's method for a message: `encode of :net`; `:net` for `forward`."""
    return str(model) if method == FORWARD else f"{method} of {model}"
