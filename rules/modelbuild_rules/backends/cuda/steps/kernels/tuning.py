"""Read a tuning file: the templates and parameters that were fastest on a GPU (timing.py), for builds without a GPU."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modelbuild.errors import did_you_mean
from modelbuild.step import StepError
from modelbuild_rules.backends.cuda.steps.kernels.timing import DECIDES, ENTRY, HEAD, VERSION, identity

_HEAD = (*HEAD, "choices")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_plain(value: object) -> bool:
    """Return whether a value is a table of numbers, booleans and strings."""
    return isinstance(value, dict) and not any(isinstance(each, (dict, list)) for each in value.values())


_FITS = {
    "op": _is_text,
    "inputs": lambda value: isinstance(value, list) and all(map(_is_text, value)),
    "output": _is_text,
    "options": _is_plain,
    "chosen": _is_plain,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A choice, and its place in the file as "name:line"."""

    chosen: Mapping[str, Any]
    place: str


@dataclass
class Tuning:
    """A tuning file, and the choices of one partition.

    found    the file's entries, by identity
    tuned    choices that the file decided; `by_cost` are choices that it lacks, by identity
    """

    found: Mapping[str, Entry] = field(default_factory=dict)
    tuned: list[str] = field(default_factory=list)
    by_cost: list[str] = field(default_factory=list)


def describe(key: str) -> str:
    """Return a short description of a choice, from its identity."""
    what = json.loads(key)
    return " ".join(filter(None, [what["op"], *what["inputs"], "->" if what["output"] else "", what["output"]]))


def read(path: Path, torch: str, triton: str, capability: int) -> Mapping[str, Entry]:
    """Return a tuning file's choices by identity. Raises StepError, with name and line, for an invalid file, other
    versions, or another compute capability."""
    text, name = path.read_text(errors="replace"), path.name

    def problem(message: str, at: int) -> StepError:
        return StepError(f"{name}:{text.count(chr(10), 0, at) + 1}: {message}")

    def where(key: str, nth: int = 0) -> int:
        places = [match.start() for match in re.finditer(rf'"{re.escape(key)}"\s*:', text)]
        return places[nth] if nth < len(places) else 0

    try:
        file = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise problem(f"not a tuning file: {error}", getattr(error, "pos", 0)) from None
    if not isinstance(file, dict) or not isinstance(file.get("choices"), list):
        raise problem('not a tuning file; expected an object with "choices"', 0)
    unknown = next((key for key in file if key not in _HEAD), None)
    if unknown is not None:
        raise problem(f"unknown '{unknown}'{did_you_mean(unknown, _HEAD)}", where(unknown))
    if not file["choices"]:
        return {}
    wanted = {
        "version": VERSION,
        "torch": torch,
        "triton": triton,
        "capability": f"{capability // 10}.{capability % 10}",
    }
    for key, value in wanted.items():
        if file.get(key) != value:
            raise problem(f"made with {key} {file.get(key)}; expected {value}: tune again with it", where(key))
    found: dict[str, Entry] = {}
    for nth, entry in enumerate(file["choices"]):
        at = where("op", nth)
        if not isinstance(entry, dict) or not isinstance(entry.get("chosen"), dict):
            raise problem('an entry without "chosen"; expected a file that NAME.tuning.pyz wrote', at)
        strange = next((key for key in entry if key not in ENTRY), None)
        missing = next((key for key in DECIDES if key not in entry), None)
        if strange is not None:
            raise problem(f"unknown '{strange}' of an entry{did_you_mean(strange, ENTRY)}", at)
        if missing is not None:
            raise problem(f"an entry without '{missing}'", at)
        wrong = next((key for key, fits in _FITS.items() if not fits(entry[key])), None)
        if wrong is not None:
            raise problem(f"'{wrong}' of an entry is invalid; expected a value that NAME.tuning.pyz wrote", at)
        if identity(entry) in found:
            raise problem(f"the same choice as in {found[identity(entry)].place}; expected it once", at)
        found[identity(entry)] = Entry(entry["chosen"], f"{name}:{text.count(chr(10), 0, at) + 1}")
    return found
