"""Python's byte code of steps, kept next to their sources. Workers cannot write there, and would compile each time."""

from __future__ import annotations

import importlib.util
import py_compile
from contextlib import suppress
from pathlib import Path

# PEP 552: the header of byte code that is valid for a source with a certain hash. Byte code that is valid for a time
# would hide a second edit within the same second.
_CHECKED_HASH = (0b11).to_bytes(4, "little")
_HEADER = 16


def keep_byte_code(file: Path) -> None:
    """Write byte code that Python accepts for a source file. Skipped if impossible: a read-only folder, or a source
    that is not Python."""
    with suppress(OSError, ValueError, py_compile.PyCompileError):
        kept = importlib.util.cache_from_source(file)
        wanted = importlib.util.MAGIC_NUMBER + _CHECKED_HASH + importlib.util.source_hash(file.read_bytes())
        with suppress(OSError), open(kept, "rb") as there:
            if there.read(_HEADER) == wanted:
                return
        py_compile.compile(str(file), kept, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
