"""Check the addresses of interpreted kernels as a GPU does, at the widths of the compiled kernels.

The interpreter reads and writes element by element. A compiled kernel reads up to 16 bytes at once where Triton derived
that addresses are contiguous and aligned. So each read and write on a line of the source must be in one allocation, and
in groups as wide as the compiled instructions of that line: contiguous, aligned, and masked all alike.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+(?:"[^"]*"\s+)?"(?:[^"]*/)?([^"/]+)"', re.MULTILINE)
_PLACE = re.compile(r"^\s*\.loc\s+(\d+) (\d+)\b(?:.*?inlined_at (\d+) (\d+))?")
_ACCESS = re.compile(r"\b(?:ld|st|atom|red)\.(?:[\w:]+\.)*?global\S*")
_VECTOR, _ELEMENT = re.compile(r"\.v(\d)\b"), re.compile(r"\.[bfsu]x?(8|16|32|64|128)\b")
_COPY = re.compile(r"\bcp\.async\.c[ag]\.shared\.global\S* \[.*?\], \[.*?\], (\w+)")


def widths(ptx: str, source: str) -> dict[int, int]:
    """Return the width of accesses to global memory, in bytes, by line of a kernel's source file (its name). The PTX
    must contain line numbers; an access without one is left out. Where a line has several widths, it is the narrowest:
    of a loop's first iteration, which is compiled apart, Triton knows more than of the others."""
    files = {number for number, name in _FILE.findall(ptx) if name == source}
    found: dict[int, int] = {}
    line, assembly = 0, False
    for text in ptx.splitlines():
        if "inline asm" in text:
            assembly = "begin" in text  # lines in it are counted from the line before it
        elif not assembly and (place := _PLACE.match(text)):
            pairs = ((place[1], place[2]), (place[3], place[4]))
            line = next((int(at) for number, at in pairs if number in files), 0)
        elif width := _width(text):
            found[line] = min(found.get(line, width), width)
    found.pop(0, None)
    return found


def _width(text: str) -> int:
    if copy := _COPY.search(text):
        return int(copy[1], 0)
    access = _ACCESS.search(text)
    if access is None:
        return 0
    vector, element = _VECTOR.search(access[0]), _ELEMENT.search(access[0])
    assert element is not None, text
    return int(vector[1] if vector else 1) * int(element[1]) // 8


class BadAccess(Exception):
    """A kernel's access that fails on a GPU or reads what it does not own."""


class MemoryCheck:
    """Checks accesses of one kernel after another, once `install` was called.

    allocations  returns the starts and ends of device memory in use, each sorted
    """

    def __init__(self, allocations: Callable[[], tuple[Any, Any]]) -> None:
        self._allocations = allocations
        self._source, self._widths = "", {}
        self._starts = self._ends = np.zeros(0, np.uint64)

    def start(self, source: str, widths: Mapping[str, int]) -> None:
        """Begin a kernel. `widths` are those of its source's lines, as in JSON."""
        self._source, self._widths = source, {int(line): width for line, width in widths.items()}
        self._starts, self._ends = self._allocations()

    def install(self) -> None:
        """Check each access of Triton's interpreter from now on."""
        from triton.runtime import interpreter

        builder = interpreter.InterpreterBuilder

        def checked(name: str, pointers: int, mask: int | None, vectors: bool) -> None:
            original = getattr(builder, name)

            def call(builder: Any, *given: Any, **named: Any) -> Any:
                handle = given[pointers]
                if mask is None:
                    on = np.ones_like(handle.data, bool)
                else:
                    # The interpreter broadcasts a comparison of scalars to integers; Triton 3.9's takes no such mask.
                    on = given[mask].data = given[mask].data.astype(bool)
                size = np.dtype(interpreter._get_np_dtype(handle.get_element_ty())).itemsize
                self._check(handle.data, on, size, vectors)
                return original(builder, *given, **named)

            setattr(builder, name, call)

        checked("create_masked_load", 0, 1, True)
        checked("create_masked_store", 0, 2, True)
        checked("create_atomic_rmw", 1, 3, False)
        checked("create_atomic_cas", 0, None, False)

    def _check(self, pointers: Any, mask: Any, size: int, vectors: bool) -> None:
        pointers, mask = np.broadcast_arrays(pointers.astype(np.uint64), mask.astype(bool))
        line = _line(self._source)
        used = pointers[mask]
        block = np.searchsorted(self._starts, used, "right").astype(np.int64) - 1
        outside = (block < 0) | (used + np.uint64(size) > self._ends[block])
        if outside.any():
            raise BadAccess(f"{self._source}:{line}: {outside.sum()} of {used.size} accesses are outside of memory")
        if (used % np.uint64(size)).any():
            raise BadAccess(f"{self._source}:{line}: an access of {size} bytes is not aligned")
        width = self._widths.get(line, size) if vectors else size
        if width > size and used.size and not _fits(pointers, mask, size, width):
            raise BadAccess(
                f"{self._source}:{line}: compiled to accesses of {width} bytes, but {width // size} elements in a row"
                " are not contiguous, aligned and masked alike"
            )


def _fits(pointers: Any, mask: Any, size: int, width: int) -> bool:
    """Return whether an access can be made in vectors along one of its dimensions; a kernel's layout decides which."""
    count = width // size
    offsets = np.arange(count, dtype=np.uint64) * np.uint64(size)
    for axis, length in enumerate(pointers.shape):
        if length % count:
            continue
        groups, masks = (np.moveaxis(each, axis, -1).reshape(-1, count) for each in (pointers, mask))
        groups, masks = groups[masks.any(1)], masks[masks.any(1)]
        if masks.all() and (groups == groups[:, :1] + offsets).all() and not (groups[:, 0] % np.uint64(width)).any():
            return True
    return False


def _line(source: str) -> int:
    """Return the line of a kernel's source that is being interpreted."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != source:
        frame = frame.f_back
    assert frame is not None, f"{source} is not being interpreted"
    return int(frame.f_lineno)
