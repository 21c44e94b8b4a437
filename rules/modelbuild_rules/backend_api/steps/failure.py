"""Describe in one line why torch or executorch fails to lower a program, with the operator and its place."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps import executorch_private
from modelbuild_rules.backend_api.steps.nodes import origin
from modelbuild_rules.node_references import node_reference

_EXECUTING = re.compile(r"While executing %(?P<name>\w+) : .*?target=(?:torch\.ops\.)?(?P<op>[\w.]+)")
"""The line that torch.fx adds to an exception of a node."""

_INSTALLED = "site-packages"
_LONGEST = 200


@contextmanager
def library_failures(program: Any, doing: str = "lower") -> Iterator[None]:
    """Raise StepError for an exception of an installed library while the context lasts, and print its traceback.
    Exceptions of modelbuild's own code, and those of a lack of memory or files, are not caught.

    program  the ATen program whose nodes the exception may name
    doing    the verb of the message
    """
    try:
        yield
    except (MemoryError, OSError, StepError):
        raise
    except Exception as error:
        innermost = traceback.extract_tb(error.__traceback__)[-1]
        place = innermost.filename.rpartition(f"/{_INSTALLED}/")[2]
        if place == innermost.filename or place.startswith("modelbuild"):
            raise
        traceback.print_exception(error)
        words = f"{type(error).__name__}: {_first_line(error)} (in {place}:{innermost.lineno})"
        at_fault = _at_fault(program, str(error))
        raise StepError(f"{executorch_private.name()} cannot {doing} {at_fault}, in its own words: {words}") from error


def _at_fault(program: Any, text: str) -> str:
    """Return the node that an exception names, with its operator."""
    found = _EXECUTING.search(text)
    if found is None:
        return "this program"
    name, op = found["name"], found["op"]
    same = [node for node in program.graph.nodes if node.name == name and str(node.target) == op]
    return f"{op} ({node_reference(name, (origin(same[0]) or name) if same else None)})"


def _first_line(error: Exception) -> str:
    line = next((each.strip() for each in str(error).splitlines() if each.strip()), "")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
