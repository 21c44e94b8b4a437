"""`modelbuild check`: check that programs can be lowered, and list every reason if they cannot."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from modelbuild.api import Command
from modelbuild.errors import BuildError
from modelbuild_rules.wording import count

if TYPE_CHECKING:
    from modelbuild_rules.program.documents import Break, Checked

# The output group of the checks of a program's methods.
GROUP = "check"

_SHOWN, _BREAKS = 10, 5
"""The numbers of operators and breaks that are shown."""


def _show(label: str, files: Mapping[str, bytes], options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of each method. Raises BuildError for another document."""
    for name, content in files.items():
        method = name.rpartition("checked.json")[0].rstrip(".")
        try:
            lines = list(_lines(f"{label}, method {method}" if method else label, json.loads(content)))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BuildError(f"{label}: {name} is malformed: {error}; expected version 2") from None
        yield from lines


def _lines(label: str, checked: Checked) -> Iterator[str]:
    """Yield the nodes of each backend, the operators that backends refused, and what splits the program."""
    taken = [
        f"{each['backend'] or 'no backend'} {count(each['nodes'], 'node')}"
        + (f" in {count(each['partitions'], 'partition')}" if each["partitions"] else "")
        for each in checked["backends"]
    ]
    yield f"{label}: {', '.join(taken) or 'no nodes'}"
    refused = checked["refused"]
    for each in refused[:_SHOWN]:
        why = "; ".join(f"{one['backend']} refused it: {one['why']}" for one in each["refused"])
        yield f"  {each['nodes']} {each['op']}, {each['backend'] or 'no backend'}: {why}"
    if len(refused) > _SHOWN:
        yield f"  and {count(len(refused) - _SHOWN, 'operator')} more"
    for found in checked["breaks"][:_BREAKS]:
        yield from _break(found)
    if len(checked["breaks"]) > _BREAKS:
        yield f"  and {count(len(checked['breaks']) - _BREAKS, 'break')} more"


def _break(found: Break) -> Iterator[str]:
    first, *others = found["nodes"]
    more = f" and {count(len(others), 'other node')}" if others else ""
    place = f" at {first['source']}" if first["source"] else ""
    yield (
        f"  break between {_listed(found['before'])} and {_listed(found['after'])}: {first['op']}{place}{more},"
        f" which read {found['reads']:,} bytes and return {found['read']:,}"
    )
    for op, advice in found["instead"].items():
        yield f"    instead of {op}: {advice}"


def _listed(partitions: Sequence[str]) -> str:
    rest = f" and {len(partitions) - 2} more" if len(partitions) > 2 else ""
    return ", ".join(partitions[:2]) + rest


check = Command(
    "check",
    help="Check that programs can be lowered, without building them.",
    about="Models are exported and lowered, and each operator is offered to the backends of the stack. Nothing"
    " is compiled. For each program, the nodes of each backend are printed, the operators that a backend refused, and"
    " what splits the program into partitions; or every reason why the program can't be lowered. That takes about as"
    " long as the actions `export` and `partition` of a build, which it does not replace: seconds for most models, and"
    " memory for their weights.",
    group=lambda options: GROUP,
    show=_show,
    after_build=True,
)
