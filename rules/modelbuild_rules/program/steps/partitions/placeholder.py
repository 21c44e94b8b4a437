"""Placeholders in a program for partitions that are not yet compiled."""

from __future__ import annotations

_MARK = b"modelbuild partition "


def placeholder(partition: str) -> bytes:
    """Return a partition's placeholder, which replaces its delegate's blob and the key of its named data."""
    return _MARK + partition.encode()


def partition_of(data: bytes) -> str | None:
    """Return the partition of a placeholder; None if the bytes are not a placeholder."""
    return data.removeprefix(_MARK).decode() if data.startswith(_MARK) else None


MAX_SIZE = len(_MARK) + 32
"""The maximum size of a placeholder, in bytes."""
