"""Write output arrays to files: .npy, or .json as nested lists."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from modelbuild_runtime.errors import ProgramError

Format: TypeAlias = Literal["npy", "json"]


def write_outputs(outputs: Mapping[str, np.ndarray], folder: Path, kind: Format = "npy") -> dict[str, Path]:
    """Write each output to `<folder>/<name>.<kind>`, creating the folder. Return the paths by name.

    In JSON, non-finite numbers are the strings "NaN", "Infinity" and "-Infinity". Raises OSError, and ProgramError if
    two outputs have the same file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths: dict[str, Path] = {}
    for name, array in outputs.items():
        path = folder / f"{re.sub(r'[^A-Za-z0-9_.+-]', '_', name)}.{kind}"
        if path in paths.values():
            raise ProgramError(f"output '{name}': another output has the same file {path}")
        if kind == "npy":
            np.save(path, array, allow_pickle=False)
        else:
            path.write_text(json.dumps(_plain(array.tolist()), allow_nan=False) + "\n")
        paths[name] = path
    return paths


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value != value:
        return "NaN"
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value
