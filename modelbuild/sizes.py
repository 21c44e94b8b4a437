"""Sizes that a user writes, in BUILD.toml, in MODELBUILD.toml or on the command line: `"20GiB"`, `"1.5 GB"`, `4096`."""

from __future__ import annotations

import re

from modelbuild.lines import shown

MOST = (1 << 63) - 1
EXPECTED = 'a size such as "20GiB" or "500 MB", or bytes'

# A letter alone is refused: 1G is 2**30 bytes to du and dd, and 10**9 to other programs.
_UNITS = {
    **{"": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12},
    **{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40},
}
_SIZE = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,18}))? ?([A-Za-z]*)\Z")


def parse_size(value: int | str, least: int = 1) -> int:
    """Return the bytes of a size, rounded down. Raises ValueError for text that is not a size, and for a size that is
    not from `least` bytes to 2**63 - 1."""
    if isinstance(value, int):
        size, got = value, str(value)
    else:
        match, got = _SIZE.match(value), shown(value)
        if match is None or match[3] not in _UNITS:
            raise ValueError(f"expected {EXPECTED}, got {got}")
        decimals = match[2] or ""
        size = int(match[1] + decimals) * _UNITS[match[3]] // 10 ** len(decimals)
    if not least <= size <= MOST:
        raise ValueError(f"expected a size from {'1 byte' if least == 1 else f'{least} bytes'} to 8 EiB, got {got}")
    return size
