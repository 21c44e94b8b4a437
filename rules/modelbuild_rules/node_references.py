"""References to nodes and attributes in the messages of steps: the form that steps write and that rules replace by the
place of the node or the attribute.

The output of a step must not depend on line numbers, so steps name nodes only; model/source_places.py adds the places.
"""

from __future__ import annotations

import re

NODE = re.compile(r"\bnode (?P<name>\w+) from (?P<origin>\w+)")
"""A node of a program, and the exported program's node that it was made from: see `node_reference`."""
OPERATOR = re.compile(r"\boperator (?P<index>\d+) of the partition(?: \((?P<op>[^)]+)\))?")
"""A node of a partition: see `operator_reference`."""
ATTRIBUTE = re.compile(r"\battribute '(?P<name>\w+)' of backend (?P<number>\d+)")
"""An attribute of a backend of the program's stack: see `attribute_reference`."""


def attribute_reference(name: str, number: int) -> str:
    """Return the description of an attribute for messages, by the backend's index in the stack."""
    return f"attribute '{name}' of backend {number}"


def node_reference(name: str, origin: str | None) -> str:
    """Return a node's description for messages; `origin` is the exported program's node."""
    return f"node {name} from {origin}" if origin else f"node {name}"


def operator_reference(index: int, op: str) -> str:
    """Return the description of a partition's node by its index among compute nodes, and its operator."""
    return f"operator {index} of the partition ({op})"
