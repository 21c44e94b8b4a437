"""ExecuTorch's element types: their numbers in a .pte, torch's names for them, and numpy's types."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# executorch/schema/scalar_type.fbs, as of executorch 1.5.1.
NAMES = {
    0: "uint8",
    1: "int8",
    2: "int16",
    3: "int32",
    4: "int64",
    5: "float16",
    6: "float32",
    7: "float64",
    8: "complex32",
    9: "complex64",
    10: "complex128",
    11: "bool",
    12: "qint8",
    13: "quint8",
    14: "qint32",
    15: "bfloat16",
    16: "quint4x2",
    17: "quint2x4",
    22: "bits16",
    23: "float8_e5m2",
    24: "float8_e4m3fn",
    25: "float8_e5m2fnuz",
    26: "float8_e4m3fnuz",
    27: "uint16",
    28: "uint32",
    29: "uint64",
}

_SIZES = {"bfloat16": 2, "complex32": 4, "qint8": 1, "quint8": 1, "qint32": 4, "bits16": 2}

FLOATS = frozenset({"float16", "float32", "float64", "bfloat16"})


def numpy_type(name: str) -> npt.DTypeLike | None:
    """Return the numpy type of arrays of a torch type; None if there is none.

    numpy has no bfloat16: arrays of it are float32, which represents each value exactly.
    """
    if name == "bfloat16":
        return np.float32
    try:
        return np.dtype(name)
    except TypeError:
        return None


def item_size(name: str) -> int:
    """Return the bytes of an element in a program's memory (1 for the float8 types)."""
    if name in _SIZES:
        return _SIZES[name]
    found = numpy_type(name)
    return 1 if found is None else np.dtype(found).itemsize
