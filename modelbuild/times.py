"""Time stamps of files and folders: when an equal time proves that nothing changed."""

from __future__ import annotations


def granularity(time_ns: int) -> int:
    """Return the nanoseconds within which a file may change again without a new time: two ticks of the slowest kernel
    timer if the file system stores fractions of a second, else the 2 s of FAT."""
    return 50_000_000 if time_ns % 1_000_000_000 else 2_000_000_000


def settled(time_ns: int, looked_at: int) -> int:
    """Return a file's time, given the later time of the check; 0 if the file may still change without a new time."""
    return time_ns if time_ns + granularity(time_ns) < looked_at else 0


def below_second(mtime_ns: int) -> int:
    """Return the part of a time below the second, in nanoseconds; the whole time if the file system stores no such
    part."""
    return mtime_ns % 1_000_000_000 or mtime_ns
