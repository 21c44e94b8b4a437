"""Conflicts between the methods of a program about the state of their module."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modelbuild_rules.program.documents import MethodState


def conflict(methods: Sequence[str], modules: Sequence[int], states: Sequence[MethodState]) -> str:
    """Return why two methods of a module cannot share a buffer; '' if all can."""
    for (name, module, own), (other, its_module, its) in permutations(zip(methods, modules, states, strict=True), 2):
        if module != its_module:
            continue
        if inside := set(own["inside"]).intersection((*its["changed"], *its["read"])):
            return (
                f"method '{name}' changes the buffer '{min(inside)}' inside a partition, whose state ExecuTorch keeps"
                f" for this partition alone, and method '{other}' uses it, too; expected a stack that runs the change"
                " outside of partitions, or the state as inputs and outputs"
            )
        for buffer, memory in own["common"].items():
            if (elsewhere := its["common"].get(buffer)) != memory and buffer in its["changed"]:
                where = f"in {elsewhere}" if elsewhere else "outside of such a partition"
                return (
                    f"method '{name}' changes the buffer '{buffer}' in {memory}, inside a partition, and method"
                    f" '{other}' uses it {where}; expected both in partitions of one backend and device, or the state"
                    " as inputs and outputs"
                )
        if read := set(own["changed"]).intersection(its["read"]):
            return (
                f"method '{name}' changes the buffer '{min(read)}', and method '{other}' only reads it, as a constant;"
                " expected methods that all change it, or that pass it as inputs and outputs"
            )
    return ""
