"""Recorded shapes of the JSON documents that leave modelbuild: the paths in a document, and the JSON types at each.

tests/formats/NAME.json has the version of a format and its shape. A test passes a document that it has made to
check_format(), which fails if the shape differs. With RECORD_FORMATS=1 in its environment, the test records the shape
instead, unless readers of the recorded version could not read it: then the format needs another version.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "formats"
# A member of any name, of an object that maps data.
ANY = "*"

# Types by path, those of one path with " | " between.
Shape = Mapping[str, str]


def check_format(name: str, document: Any, maps: Collection[str] = (), version: Any = None) -> None:
    """Compare a document with the recorded shape of its format. `maps` are paths of objects whose names are data, such
    as labels; `version` is that of a document without the member."""
    version = document["version"] if version is None else version
    found = shape_of(document, maps)
    path = RECORDED / f"{name}.json"
    known = json.loads(path.read_text()) if path.exists() else {"version": None, "shape": {}}
    if (known["version"], known["shape"]) == (version, found):
        return
    problem = problem_of(name, known["version"], known["shape"], version, found)
    if os.environ.get("RECORD_FORMATS") and not problem.startswith("raise"):
        path.write_text(json.dumps({"version": version, "shape": found}, indent=1) + "\n")
    else:
        raise AssertionError(f"the shape of {name} changed: {problem}")


def problem_of(name: str, known_version: Any, known: Shape, version: Any, found: Shape) -> str:
    """Return the task that a difference asks for, and the difference."""
    lost = sorted(path for path in known if not _types(known, path) <= _types(found, path))
    new = sorted(path for path in found if not _types(found, path) <= _types(known, path))
    if known_version == version:
        # A reader ignores new members, but not another type of one that it knows.
        other = [path for path in new if path in known]
        if lost or other:
            return (
                f"raise its version and record it with RECORD_FORMATS=1; changed: {', '.join(sorted({*lost, *other}))}"
            )
    return f"record it with RECORD_FORMATS=1; version {known_version} -> {version}, new: {', '.join(new) or 'nothing'}"


def _types(shape: Shape, path: str) -> set[str]:
    return set(shape.get(path, "").split(" | ")) - {""}


def shape_of(document: Any, maps: Collection[str] = ()) -> dict[str, str]:
    """Return the types of JSON at each path: `targets[].label` is a member of each item of a list."""
    found: dict[str, set[str]] = {}

    def add(path: str, value: Any) -> None:
        found.setdefault(path, set()).add(_type(value))
        if isinstance(value, Mapping):
            for key, each in value.items():
                add(f"{path}.{ANY if path in maps else key}".removeprefix("."), each)
        elif isinstance(value, list):
            for each in value:
                add(f"{path}[]", each)

    add("", document)
    unused = set(maps) - found.keys()
    assert not unused, f"no such path: {unused}"
    return {path: " | ".join(sorted(types)) for path, types in sorted(found.items()) if path}


def _type(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    kinds = ((str, "string"), ((int, float), "number"), (Mapping, "object"), (list, "array"))
    return next(name for kind, name in kinds if isinstance(value, kind))
