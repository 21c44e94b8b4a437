"""Results of actions by key, in SQLite: what came out, and what the key was made of."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from modelbuild.actions import ActionResult
from modelbuild.store.codec import decode_result, encode_result
from modelbuild.store.database import Database
from modelbuild.store.digests import digest_bytes

# The time of last use is written again only when it is older than this, so that a build that finds all its results
# writes nothing. In seconds.
_USE_STEP = 3600


@dataclass(frozen=True, slots=True)
class Row:
    """One action: its key, its result (None: the row is broken) and what the key was made of."""

    key: str
    result: ActionResult | None
    packed: bytes

    def material(self) -> dict[str, Any] | None:
        return _unpack(self.packed)


class ActionCache:
    """The action table. Wrong or broken rows are misses."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        self._used: set[str] = set()

    def get(self, key: str) -> ActionResult | None:
        """The result under a key, whether or not its blobs are there."""
        rows = self._database.read("SELECT result, checksum, last_used FROM actions WHERE key = ?", (key,))
        if not rows:
            return None
        text, checksum, last_used = rows[0]
        result = _decode(key, text, checksum)
        if result is not None and (not isinstance(last_used, int) or last_used < self._clock() - _USE_STEP):
            self._used.add(key)
        return result

    def put(self, key: str, result: ActionResult, material: Mapping[str, Any], added: int) -> None:
        """Remember a result. `added`: bytes that the blobs have grown by since the last put."""
        import zlib

        text = encode_result(result)
        now = int(self._clock())
        packed = zlib.compress(json.dumps(material, sort_keys=True, separators=(",", ":")).encode())
        row = (key, text, _sum(key, text), packed, now, now)
        self._database.write(
            ("INSERT OR REPLACE INTO actions VALUES (?, ?, ?, ?, ?, ?)", [row]),
            ("UPDATE totals SET value = value + ? WHERE name = 'bytes'", [(added,)] if added else []),
        )

    def material(self, key: str) -> dict[str, Any] | None:
        """What a key was made of, if its action is remembered."""
        rows = self._database.read("SELECT material FROM actions WHERE key = ?", (key,))
        return _unpack(rows[0][0]) if rows else None

    def materials(self, prefix: str) -> dict[str, dict[str, Any]]:
        """What keys that begin with some hexadecimal digits were made of, by key."""
        sql = "SELECT key, material FROM actions WHERE key >= ? AND key < ?"
        rows = self._database.read(sql, (prefix, prefix + "g")) or ()
        return {key: material for key, packed in rows if (material := _unpack(packed)) is not None}

    def flush(self) -> None:
        """Write down what was used. Skipped in a read-only cache, silently: it only serves eviction."""
        used, self._used = self._used, set()
        if used and self._database.writable:
            now = int(self._clock())
            self._database.write(
                ("UPDATE actions SET last_used = ? WHERE key = ?", [(now, key) for key in sorted(used)])
            )

    def total(self) -> int | None:
        """Bytes of blobs: counted by the last gc, and what was added since. None before the first."""
        rows = self._database.read("SELECT value FROM totals WHERE name = 'bytes'")
        return rows[0][0] if rows and isinstance(rows[0][0], int) else None

    def rows(self) -> list[Row] | None:
        """All actions, the one used last first; None when they cannot be read."""
        found = self._database.read(
            "SELECT key, result, checksum, material FROM actions ORDER BY last_used DESC, rowid DESC"
        )
        if found is None:
            return None
        return [Row(key, _decode(key, text, checksum), packed) for key, text, checksum, packed in found]

    def forget(self, keys: Iterable[str]) -> bool:
        """Drop results. Whether that was done."""
        return self._database.write(("DELETE FROM actions WHERE key = ?", [(key,) for key in keys]))

    def set_total(self, size: int) -> None:
        self._database.write(("INSERT OR REPLACE INTO totals VALUES ('bytes', ?)", [(size,)]))


def _decode(key: str, text: Any, checksum: Any) -> ActionResult | None:
    """A row's result, or None when it is not what was written."""
    if not isinstance(text, str) or checksum != _sum(key, text):
        return None
    try:
        return decode_result(text)
    except ValueError:
        return None


def _unpack(packed: Any) -> dict[str, Any] | None:
    """A row's material, or None when it is not what was written."""
    import zlib

    try:
        material = json.loads(zlib.decompress(packed))
    except (zlib.error, ValueError, TypeError):
        return None
    return material if isinstance(material, dict) else None


def _sum(key: str, text: str) -> str:
    return digest_bytes(f"{key}\n{text}".encode()).hash
