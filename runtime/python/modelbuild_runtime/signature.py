"""Names, ranges and dynamic dimensions of a program's inputs and outputs: signature.json beside a .pte.

{"version": 1,
 "inputs":  [{"name", "dtype", "shape": [1, 3, "h"], "dynamic": {"h": {"min", "max"}}, "range": [low, high] | null}],
 "outputs": [{"name", "dtype", "shape"}]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelbuild_runtime.errors import ProgramError
from modelbuild_runtime.shapes import Dim

VERSION = 1


@dataclass(frozen=True, slots=True)
class Named:
    """An input or output as declared. A dimension is a size, or a name (or an expression of names)."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    dynamic: Mapping[str, Dim]
    range: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Signature:
    inputs: tuple[Named, ...]
    outputs: tuple[Named, ...]


def read_signature(path: Path) -> Signature:
    """Raises ProgramError when the file is no signature."""
    try:
        found = json.loads(path.read_bytes())
        if found["version"] != VERSION:
            raise ProgramError(f"{path}: signature of version {found['version']}; this runtime knows {VERSION}")
        inputs = tuple(map(_named, found["inputs"]))
        dynamic = {name: dim for declared in inputs for name, dim in declared.dynamic.items()}
        outputs = tuple(_named({"dynamic": {}, **output}) for output in found["outputs"])
        return Signature(inputs, tuple(Named(o.name, o.dtype, o.shape, {**dynamic, **o.dynamic}) for o in outputs))
    except OSError as error:
        raise ProgramError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProgramError(f"{path}: not a signature: {type(error).__name__}: {error}") from None


def _named(declared: Mapping[str, Any]) -> Named:
    bounds = declared.get("dynamic") or {}
    dynamic = {name: Dim(int(bound["min"]), int(bound["max"]), name) for name, bound in bounds.items()}
    limits = declared.get("range")
    shape = tuple(size if isinstance(size, str) else int(size) for size in declared["shape"])
    span = None if limits is None else (float(limits[0]), float(limits[1]))
    return Named(str(declared["name"]), str(declared["dtype"]), shape, dynamic, span)
