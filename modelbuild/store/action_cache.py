"""Action results by key, in SQLite, with the contents of the keys."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from modelbuild.actions import ActionResult, Material
from modelbuild.store.codec import decode_result, encode_result
from modelbuild.store.database import Database
from modelbuild.store.digests import digest_bytes

# Seconds after which the time of last use is updated, so that a build with only cache hits writes nothing.
_USE_STEP = 3600


@dataclass(frozen=True, slots=True)
class Row:
    """An action's key, its result (None: the row is damaged), the contents of its key, and the time of its last use in
    seconds since the epoch."""

    key: str
    result: ActionResult | None
    packed: bytes
    used: float = 0.0

    def material(self) -> dict[str, Any] | None:
        return _unpack(self.packed)


class ActionCache:
    """The action table. Damaged rows count as misses."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        self._used: set[str] = set()

    def get(self, key: str) -> ActionResult | None:
        """Return the result for a key; its blobs may be missing."""
        rows = self._database.read("SELECT result, checksum, last_used FROM actions WHERE key = ?", (key,))
        if not rows:
            return None
        text, checksum, last_used = rows[0]
        result = _decode(key, text, checksum)
        if result is not None and (not isinstance(last_used, int) or last_used < self._clock() - _USE_STEP):
            self._used.add(key)
        return result

    def put(self, key: str, result: ActionResult, material: Material, added: int) -> None:
        """Store a result. `added`: bytes of new blobs since the last put."""
        import zlib

        from modelbuild.redaction import redacted_material

        text = encode_result(result)
        now = int(self._clock())
        packed = zlib.compress(json.dumps(redacted_material(material), sort_keys=True, separators=(",", ":")).encode())
        row = (key, text, _sum(key, text), packed, now, now)
        self._database.write(
            ("INSERT OR REPLACE INTO actions VALUES (?, ?, ?, ?, ?, ?)", [row]),
            ("UPDATE totals SET value = value + ? WHERE name = 'bytes'", [(added,)] if added else []),
        )

    def flush(self) -> None:
        """Write the times of use."""
        used, self._used = self._used, set()
        if used:
            now = int(self._clock())
            self._database.write(
                ("UPDATE actions SET last_used = ? WHERE key = ?", [(now, key) for key in sorted(used)])
            )

    def total(self) -> int | None:
        """Return the bytes of all blobs: the total of the last gc plus the bytes added since. None before the first
        gc."""
        rows = self._database.read("SELECT value FROM totals WHERE name = 'bytes'")
        return rows[0][0] if rows and isinstance(rows[0][0], int) else None

    def rows(self) -> list[Row] | None:
        """Return all actions, the most recently used first; None if they cannot be read."""
        found = self._database.read(
            "SELECT key, result, checksum, material, last_used FROM actions ORDER BY last_used DESC, rowid DESC"
        )
        if found is None:
            return None
        return [
            Row(key, _decode(key, text, checksum), packed, float(used) if isinstance(used, int | float) else 0.0)
            for key, text, checksum, packed, used in found
        ]

    def forget(self, keys: Iterable[str]) -> bool:
        """Delete results. Returns whether they were deleted."""
        return self._database.write(("DELETE FROM actions WHERE key = ?", [(key,) for key in keys]))

    def set_total(self, size: int) -> None:
        self._database.write(("INSERT OR REPLACE INTO totals VALUES ('bytes', ?)", [(size,)]))


def _decode(key: str, text: Any, checksum: Any) -> ActionResult | None:
    """Return a row's result, or None if the row is damaged."""
    if not isinstance(text, str) or checksum != _sum(key, text):
        return None
    try:
        return decode_result(text)
    except ValueError:
        return None


def _unpack(packed: Any) -> dict[str, Any] | None:
    """Return a row's material, or None if the row is damaged."""
    import zlib

    try:
        material = json.loads(zlib.decompress(packed))
    except (zlib.error, ValueError, TypeError):
        return None
    return material if isinstance(material, dict) else None


def _sum(key: str, text: str) -> str:
    return digest_bytes(f"{key}\n{text}".encode()).hash
