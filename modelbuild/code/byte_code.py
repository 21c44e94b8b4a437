"""Python's byte code of steps, kept beside their sources: workers may not write there, and would compile each time."""

from __future__ import annotations

import importlib.util
import py_compile
from contextlib import suppress
from pathlib import Path

# PEP 552: the header of byte code that holds for a source with a certain hash, whatever its time. By time alone, what
# is edited twice within a second could be taken for the same.
_CHECKED_HASH = (0b11).to_bytes(4, "little")
_HEADER = 16


def keep_byte_code(file: Path) -> None:
    """See that there is byte code that Python will take for a source file. Nothing is done where that cannot be: for a
    read-only folder, or a source that is not Python."""
    with suppress(OSError, ValueError, py_compile.PyCompileError):
        kept = importlib.util.cache_from_source(file)
        wanted = importlib.util.MAGIC_NUMBER + _CHECKED_HASH + importlib.util.source_hash(file.read_bytes())
        with suppress(OSError), open(kept, "rb") as there:
            if there.read(_HEADER) == wanted:
                return
        py_compile.compile(str(file), kept, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
