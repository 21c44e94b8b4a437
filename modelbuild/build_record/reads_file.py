"""The file next to a build's record, with what each target depends on: a checksum, and columns in JSON.

A build after touched files reads it, so this imports little.
"""

from __future__ import annotations

import json
from binascii import crc32

from modelbuild.build_record.record import read_regular, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

FORMAT = 6
_SUM = 9  # bytes of the checksum and of the end of its line


def write_columns(record: str, token: int, columns: Sequence[Any]) -> None:
    """Write the columns for the record at a path, with this token. Raises OSError."""
    data = json.dumps([FORMAT, token, *columns]).encode()
    write_whole(_path(record), _checksum(data) + data)


def read_columns(record: str, token: int) -> list[Any] | None:
    """Return the columns; None if they are missing, damaged or belong to a record with another token."""
    whole = read_regular(_path(record))
    checksum, data = whole[:_SUM], whole[_SUM:]
    if checksum != _checksum(data):
        return None
    version, of, *columns = json.loads(data)
    return columns if (version, of) == (FORMAT, token) else None


def _path(record: str) -> str:
    return f"{record}.reads"


def _checksum(data: bytes) -> bytes:
    return f"{crc32(data):08x}\n".encode()
