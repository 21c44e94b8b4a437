"""The tuning file: the templates and parameters that were fastest on a GPU, for builds without one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modelbuild.errors import did_you_mean
from modelbuild.step import StepError

FILE = "tuning.json"
"""The file that a compile step writes for a partition whose kernels it timed."""

VERSION = 1
_HEAD = ("version", "torch", "triton", "capability", "choices")
_ENTRY = ("op", "inputs", "output", "options", "chosen", "microseconds", "by_cost", "gpu", "driver")
_DECIDES = ("op", "inputs", "output", "options")


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
    made     entries timed on this machine's GPU
    tuned    choices that the file decided; `by_cost` are those that it lacks, by identity
    """

    found: Mapping[str, Entry] = field(default_factory=dict)
    made: dict[str, dict[str, Any]] = field(default_factory=dict)
    tuned: list[str] = field(default_factory=list)
    by_cost: list[str] = field(default_factory=list)


def identity(what: Mapping[str, Any]) -> str:
    """Return the key of a choice: its operator, tensors and options, without the chosen parameters."""
    return json.dumps({name: what[name] for name in _DECIDES}, sort_keys=True)


def describe(key: str) -> str:
    """Return a short description of a choice, from its identity."""
    what = json.loads(key)
    return " ".join(filter(None, [what["op"], *what["inputs"], "->" if what["output"] else "", what["output"]]))


def tuning_text(entries: Iterable[Mapping[str, Any]], torch: str, triton: str, capability: int) -> str:
    """Return a tuning file's text: one line per choice, sorted. Of several entries for a choice it has the fastest."""
    slowest_first = sorted(entries, key=lambda entry: -entry["microseconds"])
    by_identity = {identity(entry): entry for entry in slowest_first}
    lines = [
        json.dumps({name: entry[name] for name in _ENTRY if name in entry}) for _, entry in sorted(by_identity.items())
    ]
    head = {"version": VERSION, "torch": torch, "triton": triton, "capability": f"{capability // 10}.{capability % 10}"}
    shown = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items())
    return f'{{\n{shown},\n  "choices": [' + ",".join(f"\n    {line}" for line in lines) + "\n  ]\n}\n"


def merged(texts: Iterable[str]) -> str:
    """Return one tuning file, merged from those of a program's partitions, which have the same versions."""
    files = [json.loads(text) for text in texts]
    if not files:
        return f'{{"version": {VERSION}, "choices": []}}\n'
    first, numbers = files[0], files[0]["capability"].split(".")
    entries = [entry for file in files for entry in file["choices"]]
    return tuning_text(entries, first["torch"], first["triton"], 10 * int(numbers[0]) + int(numbers[1]))


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
            raise problem('an entry without "chosen"; expected a file that a build with build_on = "gpu" wrote', at)
        strange = next((key for key in entry if key not in _ENTRY), None)
        missing = next((key for key in _DECIDES if key not in entry), None)
        if strange is not None:
            raise problem(f"unknown '{strange}' of an entry{did_you_mean(strange, _ENTRY)}", at)
        if missing is not None:
            raise problem(f"an entry without '{missing}'", at)
        wrong = next((key for key, fits in _FITS.items() if not fits(entry[key])), None)
        if wrong is not None:
            raise problem(f"'{wrong}' of an entry is invalid; expected a value that a build on a GPU wrote", at)
        if identity(entry) in found:
            raise problem(f"the same choice as in {found[identity(entry)].place}; expected it once", at)
        found[identity(entry)] = Entry(entry["chosen"], f"{name}:{text.count(chr(10), 0, at) + 1}")
    return found
