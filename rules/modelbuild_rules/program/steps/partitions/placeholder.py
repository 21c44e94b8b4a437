"""What stands in a program for a partition that is not compiled yet."""

from __future__ import annotations

_MARK = b"modelbuild partition "


def placeholder(partition: str) -> bytes:
    """The bytes that stand for a partition: in place of its delegate's blob, and as the key of its named data."""
    return _MARK + partition.encode()


def partition_of(data: bytes) -> str | None:
    """The partition that some bytes stand for; None when they are no placeholder."""
    return data.removeprefix(_MARK).decode() if data.startswith(_MARK) else None


MAX_SIZE = len(_MARK) + 32
"""Anything longer than this many bytes is no placeholder."""
