"""The time of each instruction of a program, from the C++ runtime's events."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

from modelbuild_runtime.files.pte import Call, ProgramFile

VERSION = 1

# The maximum number of instructions in a printed table.
_SHOWN = 25

# Names of the events around an instruction that calls a kernel or a delegate.
_CALLS = ("OPERATOR_CALL", "DELEGATE_CALL")


@dataclass(frozen=True, slots=True)
class Row:
    """An instruction of a method, or an event that a delegate reports within an instruction.

    kind         operator, partition, or event
    name         the kernel, such as `aten::nonzero.out`; the partition's id; the event's name
    backend      of a partition; `portable` for a kernel
    chain        with `instruction`, the place in the program
    calls        number of calls in each run
    median_us    median microseconds of the runs, each the sum of its calls
    share        fraction of the sum over all instructions, also for an event
    nodes        names of the nodes of the lowered graph; empty if they are unknown
    modules      qualified names of their modules in the model
    """

    kind: Literal["operator", "partition", "event"]
    name: str
    backend: str
    chain: int
    instruction: int
    calls: int
    median_us: float
    share: float
    nodes: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Profile:
    """A method's instructions in the order of the program, each followed by its events; the median time of a run."""

    program: str
    method: str
    runs: int
    run_us: float
    rows: tuple[Row, ...]

    def to_json(self) -> dict[str, Any]:
        return {"version": VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Profile:
        """Return the profile that to_json() made."""
        rows = (Row(**{**row, "nodes": tuple(row["nodes"]), "modules": tuple(row["modules"])}) for row in data["rows"])
        return cls(data["program"], data["method"], data["runs"], data["run_us"], tuple(rows))

    def lines(self) -> list[str]:
        """Return a table of the slowest instructions, with events below their instruction, and a sum of the other
        instructions."""
        head = ("", "backend", "calls", "median us", "share", "nodes")
        slowest = sorted((row for row in self.rows if row.kind != "event"), key=lambda row: -row.median_us)
        events: dict[tuple[int, int], list[Row]] = defaultdict(list)
        for row in self.rows:
            if row.kind == "event":
                events[row.chain, row.instruction].append(row)
        shown = [each for row in slowest[:_SHOWN] for each in (row, *events[row.chain, row.instruction])]
        table = [head, *map(_cells, shown), *_sum(slowest[_SHOWN:])]
        widths = [max(len(cells[i]) for cells in table) for i in range(len(head) - 1)]
        made = []
        for cells in table:
            left = (cell.ljust(width) for cell, width in zip(cells[:2], widths[:2], strict=True))
            right = (cell.rjust(width) for cell, width in zip(cells[2:5], widths[2:], strict=True))
            made.append("  ".join([*left, *right, cells[5]]).rstrip())
        return [*made, f"run of {self.run_us:.1f} us, median of {self.runs}"]


def _cells(row: Row) -> tuple[str, ...]:
    name = f"  {row.name}" if row.kind == "event" else row.name
    nodes = ", ".join(row.nodes[:3]) + (f" and {len(row.nodes) - 3} more" if len(row.nodes) > 3 else "")
    return name, row.backend, str(row.calls), f"{row.median_us:.1f}", f"{100 * row.share:.1f}%", nodes


def _sum(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    if not rows:
        return []
    calls, us, share = (
        sum(row.calls for row in rows),
        sum(row.median_us for row in rows),
        sum(row.share for row in rows),
    )
    return [(f"{len(rows)} more", "", str(calls), f"{us:.1f}", f"{100 * share:.1f}%", "")]


def summarize(events: str, program: Path, file: ProgramFile, method: str) -> Profile:
    """Return the profile of a method from the runtime's events of its measured runs (mb_take_profile). Raises
    ValueError, KeyError, TypeError or AttributeError for other text."""
    (described,) = (each for each in file.methods if each.name == method)
    calls = {call.place: call for call in described.calls}
    runs = json.loads(events)["runs"]
    names = _Names(program, file, method)
    times: dict[tuple[Any, ...], list[dict[int, list[float]]]] = {}
    totals = []
    for number, run in enumerate(runs):
        totals.append(sum(_us(e) for e in run if e["name"] == "Method::execute"))
        for event in run:
            place = (event["chain"], event["instruction"])
            if place not in calls:
                continue
            key = (*place, event["name"] if event["delegate"] else "", event["index"] if event["delegate"] else -1)
            if event["delegate"] or event["name"] in _CALLS:
                times.setdefault(key, [defaultdict(list)])[0][number].append(_us(event))
    found = {key: each[0] for key, each in times.items()}
    medians = {key: median([sum(each.get(n, [0.0])) for n in range(len(runs))]) for key, each in found.items()}
    whole = sum(value for key, value in medians.items() if not key[2]) or 1.0
    rows = []
    for key in sorted(found, key=lambda key: (key[0], key[1], key[2] != "", key[3])):
        chain, instruction, event, _ = key
        count = round(sum(map(len, found[key].values())) / len(runs))
        place = (chain, instruction, count, medians[key], medians[key] / whole)
        row = names.row(calls[chain, instruction], place)
        rows.append(Row("event", event, row.backend, *place) if event else row)
    return Profile(str(program), method, len(runs), median(totals or [0.0]), tuple(rows))


def _us(event: Mapping[str, Any]) -> float:
    return float(event["end_ns"] - event["start_ns"]) / 1000


class _Names:
    """The partitions, nodes and modules of a method's calls, from the manifest and the delegation.json next to it."""

    def __init__(self, program: Path, file: ProgramFile, method: str) -> None:
        described = next(each for each in file.methods if each.name == method)
        with program.open("rb") as data:
            self._parts = [_part(data.read, data.seek, each, file.manifest or {}) for each in described.delegates]
        self._backends = [each.backend for each in described.delegates]
        self._nodes: list[dict[str, Any]] = _nodes(program.with_name("delegation.json"))
        self._kernels = _assigned([call.kernel for call in described.calls if call.kernel], self._nodes)
        self._next = dict.fromkeys(self._kernels, 0)

    def row(self, call: Call, place: tuple[int, int, int, float, float]) -> Row:
        if call.delegate is None:
            nodes = self._of_kernel(call.kernel)
            return Row("operator", call.kernel, "portable", *place, *_names(nodes))
        part = self._parts[call.delegate]
        nodes = [each for each in self._nodes if each.get("partition") == part]
        return Row("partition", part, self._backends[call.delegate], *place, *_names(nodes))

    def _of_kernel(self, kernel: str) -> list[dict[str, Any]]:
        """Return the node of the next call of a kernel: both are in the order of the program."""
        known = self._kernels[kernel]
        position, self._next[kernel] = self._next[kernel], self._next[kernel] + 1
        return known[position : position + 1]


def _part(read: Any, seek: Any, delegate: Any, manifest: Mapping[str, Any]) -> str:
    seek(delegate.offset)
    digest = hashlib.sha256(read(delegate.size)).hexdigest()
    return next((part["id"] for part in manifest.get("parts", ()) if part.get("sha256") == digest), digest[:12])


def _nodes(path: Path) -> list[dict[str, Any]]:
    try:
        found = json.loads(path.read_bytes())["nodes"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [node for node in found if isinstance(node, dict)] if isinstance(found, list) else []


def _assigned(kernels: Iterable[str], nodes: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the nodes outside partitions by kernel: the nodes of its operator, if their number is the number of
    calls."""
    counts: dict[str, int] = defaultdict(int)
    for kernel in kernels:
        counts[kernel] += 1
    outside = [node for node in nodes if node.get("partition") is None]
    found = {}
    for kernel, count in counts.items():
        base = kernel.partition(".")[0].replace("::", ".")
        same = [node for node in outside if ".".join(str(node.get("op")).split(".")[:2]) == base]
        found[kernel] = same if len(same) == count else []
    return found


def _names(nodes: Sequence[dict[str, Any]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    modules = dict.fromkeys(str(node["module"]) for node in nodes if node.get("module"))
    return tuple(str(node.get("name")) for node in nodes), tuple(modules)
