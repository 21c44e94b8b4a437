"""The result of a search for the first wrong node, and the nodes of a partition that remain to be judged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from modelbuild_rules.testing.steps.parity.compare import node_difference

if TYPE_CHECKING:
    from modelbuild_rules.testing.documents import ToleranceParams

FINDING = "finding.json"
_NODES = "nodes.json"


@dataclass(frozen=True)
class Finding:
    """The result of the search: a message, the place in the model's source, and the first wrong node (None if it was
    not found)."""

    message: str
    place: str = ""
    node: Node | None = None

    def with_reason(self, reason: str) -> Finding:
        return replace(self, message=f"{self.message}; {reason}")

    def of_case(self, name: str, call: int, calls: int, method: str = "") -> Finding:
        """Return the finding with its case, and with the call if the case has several calls. `method`: the call's
        method, if the case calls several methods."""
        which = f", call {call} of {calls}" + (f" ({method})" if method else "") if calls > 1 else ""
        return replace(self, message=f"case {name}{which}: {self.message}")

    def write(self, path: Path) -> None:
        described = {"version": 1, "message": self.message, "place": self.place}
        path.write_text(json.dumps(described, indent=1) + "\n")


@dataclass(frozen=True)
class Node:
    """A node.

    name      its name in the exported program
    operator  as "aten.add.Tensor"
    where     its module and partition as text
    backend   the backend of its partition; '' outside partitions
    place     its place in the model's source
    """

    name: str
    operator: str
    where: str
    backend: str
    place: str

    def finding(self, difference: str) -> Finding:
        message = f"first wrong node: {self.name} ({self.operator}){self.where}: it {difference}"
        return Finding(message, self.place, self)


@dataclass(frozen=True)
class Nodes:
    """The nodes of a wrong partition, each with its expected result, in the order of the outputs of the recompiled
    partition. `at` is the finding if all nodes are right."""

    nodes: Sequence[tuple[Node, Any]]
    at: Finding
    tolerance: ToleranceParams

    def judge(self, given: Sequence[Any]) -> Finding:
        """Return the first wrong node from the outputs of the recompiled partition."""
        for (node, expected), found in zip(self.nodes, given, strict=True):
            difference = node_difference(found, expected, self.tolerance)
            if difference:
                return node.finding(difference)
        return self.at.with_reason("compiled again with their results as outputs, all its nodes are right")

    def save(self, folder: Path) -> None:
        for number, (_, expected) in enumerate(self.nodes):
            np.save(folder / f"expected{number}.npy", expected)
        nodes = [asdict(node) for node, _ in self.nodes]
        at = {"message": self.at.message, "place": self.at.place}
        (folder / _NODES).write_text(json.dumps({"nodes": nodes, "at": at, "tolerance": self.tolerance}))

    @classmethod
    def load(cls, folder: Path) -> Nodes:
        data = json.loads((folder / _NODES).read_bytes())
        nodes = [(Node(**each), np.load(folder / f"expected{number}.npy")) for number, each in enumerate(data["nodes"])]
        return cls(nodes, Finding(**data["at"]), data["tolerance"])
