"""The tuning file: which template and parameters were fastest on a GPU, for a build without one to take."""

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
"""What a compile step calls the tuning file of a partition whose kernels it timed."""

VERSION = 1
_HEAD = ("version", "torch", "triton", "capability", "choices")
_ENTRY = ("op", "inputs", "output", "options", "chosen", "microseconds", "by_cost", "gpu", "driver")
_DECIDES = ("op", "inputs", "output", "options")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_plain(value: object) -> bool:
    """Return whether it is a table of numbers, truth values and texts."""
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
    """What was chosen, and where that stands in the file as "name:line"."""

    chosen: Mapping[str, Any]
    place: str


@dataclass
class Tuning:
    """A tuning file, and what became of the choices of one partition.

    found    of the file, by identity
    made     entries made on the GPU here
    tuned    choices that the file decided; `by_cost` are those that it lacks, by name
    """

    found: Mapping[str, Entry] = field(default_factory=dict)
    made: dict[str, dict[str, Any]] = field(default_factory=dict)
    tuned: list[str] = field(default_factory=list)
    by_cost: list[str] = field(default_factory=list)


def identity(what: Mapping[str, Any]) -> str:
    """By what a choice is found again: its operator, tensors and options, but nothing of what is chosen."""
    return json.dumps({name: what[name] for name in _DECIDES}, sort_keys=True)


def said(key: str) -> str:
    """A choice by its identity, in a few words."""
    what = json.loads(key)
    return " ".join(filter(None, [what["op"], *what["inputs"], "->" if what["output"] else "", what["output"]]))


def written(entries: Iterable[Mapping[str, Any]], torch: str, triton: str, capability: int) -> str:
    """A tuning file's text: a line for each choice, sorted. Of entries for one choice the fastest is it."""
    slowest_first = sorted(entries, key=lambda entry: -entry["microseconds"])
    by_identity = {identity(entry): entry for entry in slowest_first}
    lines = [
        json.dumps({name: entry[name] for name in _ENTRY if name in entry}) for _, entry in sorted(by_identity.items())
    ]
    head = {"version": VERSION, "torch": torch, "triton": triton, "capability": f"{capability // 10}.{capability % 10}"}
    shown = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items())
    return f'{{\n{shown},\n  "choices": [' + ",".join(f"\n    {line}" for line in lines) + "\n  ]\n}\n"


def merged(texts: Iterable[str]) -> str:
    """One tuning file of those of a program's partitions, which were made with the same versions."""
    files = [json.loads(text) for text in texts]
    if not files:
        return f'{{"version": {VERSION}, "choices": []}}\n'
    first, numbers = files[0], files[0]["capability"].split(".")
    entries = [entry for file in files for entry in file["choices"]]
    return written(entries, first["torch"], first["triton"], 10 * int(numbers[0]) + int(numbers[1]))


def read(path: Path, torch: str, triton: str, capability: int) -> Mapping[str, Entry]:
    """A tuning file's choices by identity. Raises StepError, with name and line, for a file that is not one, or one of
    other versions or another compute capability."""
    text, name = path.read_text(errors="replace"), path.name

    def problem(message: str, at: int) -> StepError:
        return StepError(f"{name}:{text.count(chr(10), 0, at) + 1}: {message}")

    def where(key: str, nth: int = 0) -> int:
        places = [match.start() for match in re.finditer(rf'"{re.escape(key)}"\s*:', text)]
        return places[nth] if nth < len(places) else 0

    try:
        file = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise problem(f"no tuning file: {error}", getattr(error, "pos", 0)) from None
    if not isinstance(file, dict) or not isinstance(file.get("choices"), list):
        raise problem('no tuning file; expected an object with "choices"', 0)
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
            raise problem('an entry without "chosen"; expected what a build with build_on = "gpu" writes', at)
        strange = next((key for key in entry if key not in _ENTRY), None)
        missing = next((key for key in _DECIDES if key not in entry), None)
        if strange is not None:
            raise problem(f"unknown '{strange}' of an entry{did_you_mean(strange, _ENTRY)}", at)
        if missing is not None:
            raise problem(f"an entry without '{missing}'", at)
        wrong = next((key for key, fits in _FITS.items() if not fits(entry[key])), None)
        if wrong is not None:
            raise problem(f"'{wrong}' of an entry is not as a build with build_on = \"gpu\" writes it", at)
        if identity(entry) in found:
            raise problem(f"the same choice as in {found[identity(entry)].place}; expected it once", at)
        found[identity(entry)] = Entry(entry["chosen"], f"{name}:{text.count(chr(10), 0, at) + 1}")
    return found
