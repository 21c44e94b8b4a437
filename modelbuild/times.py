"""How far the time of a file or folder can be trusted to show that it changed."""

from __future__ import annotations


def granularity(time_ns: int) -> int:
    """Nanoseconds within which a file may change again without its time showing it: two ticks of the slowest kernel
    timer where the file system keeps parts of a second at all, else the 2 s of FAT."""
    return 50_000_000 if time_ns % 1_000_000_000 else 2_000_000_000


def settled(time_ns: int, looked_at: int) -> int:
    """The time of what was looked at later, or 0 when it may yet change without its time showing it."""
    return time_ns if time_ns + granularity(time_ns) < looked_at else 0
