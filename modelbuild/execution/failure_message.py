"""The message with the reason why an action failed."""

from __future__ import annotations

import importlib.util
import json
import signal
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelbuild.actions import Action
from modelbuild.code.distributions import canonical
from modelbuild.code.interpreter import Interpreter
from modelbuild.code.step_sources import changed
from modelbuild.execution.executor import ActionRequest
from modelbuild.execution.fork_server_client import EndedProcess
from modelbuild.workspace.workspace import LIBRARY

if TYPE_CHECKING:
    from modelbuild.execution.orders import End, Read


def failure_message(request: ActionRequest, ended: EndedProcess, report: str, workspace: Path | None = None) -> str:
    """Return the reason why the action failed; '' if its step returned and read only declared files.

    report      the worker's report (see worker/child.py)
    workspace   the folder with files that the worker could not see
    """
    action, python = request.action, request.python
    if ended.problem:
        return ended.problem
    if ended.late and request.limit is not None:
        return request.limit.problem
    found, end = _read(report)
    if end is not None and end.get("changed"):
        return changed(end["changed"][0])
    reads = [*found, *(end.get("perhaps", ()) if end is not None else ())]
    undeclared = list(dict.fromkeys(_undeclared(action, fact) for fact in reads if _exists(fact, workspace)))
    if undeclared:
        return "\n".join(undeclared)
    if ended.status < 0:
        return _killed(ended)
    if end is None:
        return f"the process ended with exit status {ended.status} before step {action.step} returned"
    if end["end"] == "done":
        return _uncovered(action, end["strays"][0]) if end["strays"] else ""
    if end["end"] == "internal" and python.toolchain and end.get("missing") == LIBRARY:
        library = LIBRARY.replace("_", "-")
        expected = f"which is not installed with modelbuild; expected `pip install --no-deps {library}`"
        return f"step {action.step} needs {library}, {expected}"
    if end["end"] == "internal":
        hidden = _not_in_key(action, end.get("missing", ""), python)
        return f"internal error in step {action.step}: {end['text']}{hidden and f'; {hidden}'}"
    if end["end"] == "network":
        reader = end["reader"] or f"step {action.step}"
        return f"{reader} uses the network ({end['text']}); declare the file with an http_file target and read that"
    return f"{end['text']}{_unseen(action, end.get('missing', ''), python)}"


def _unseen(action: Action, missing: str, python: Interpreter) -> str:
    """Return the advice for a module that a worker did not find, if Python finds it here or no package of the toolchain
    contains it; else ''."""
    top = missing.partition(".")[0]
    if hidden := _not_in_key(action, missing, python):
        return f"\n{hidden}"
    if python.toolchain and top and not _is_there(top, python):
        return f"\nno package of {python.lock} has a module {top}; {python.lock_advice('one')}"
    there = top and _is_there(top, python)
    return f"\nno import statement names {missing}; add it to 'requires' of {action.owner}" if there else ""


def _not_in_key(action: Action, missing: str, python: Interpreter) -> str:
    """Return the advice for a module of an installed distribution, which a worker hides if no key names it; else ''."""
    owners = _owners(python.path).get(missing.partition(".")[0], []) if missing else []
    if not owners:
        return ""
    where = f"'requires' of {action.owner}" if action.python else f"the tools that the rule of {action.owner} names"
    return f"{missing} is of the package '{owners[0]}', which is not in the action's key; add '{owners[0]}' to {where}"


def _is_there(top: str, python: Interpreter) -> bool:
    try:
        return (python.find_module if python.toolchain else importlib.util.find_spec)(top) is not None
    except (ImportError, ValueError):
        return False


def _read(report: str) -> tuple[list[Read], End | None]:
    """Return a report's undeclared reads, and the step's end; None for a worker that was killed before it."""
    facts: list[Any] = []
    # A killed worker may leave half a line.
    with suppress(ValueError):
        for line in report.splitlines():
            facts.append(json.loads(line))
    return [fact for fact in facts if "read" in fact], facts[-1] if facts and "end" in facts[-1] else None


def _exists(fact: Read, workspace: Path | None) -> bool:
    """Return whether the file of a fact exists."""
    if not fact["unseen"]:
        return True
    if workspace is None:
        return False
    path = workspace / str(fact["read"])
    return path.exists() if fact["verb"] == "lists" else path.is_file()


def _undeclared(action: Action, fact: Read) -> str:
    if fact["module"]:
        return _uncovered(action, fact["module"])
    what = f"{fact['reader'] or f'step {action.step}'} {fact['verb']} {fact['read']}"
    attribute = f"'{_attribute(action, fact['read'])}' of {action.owner}"
    if fact["declared"]:
        return f"{what} by its absolute path; expected a path relative to the workspace, which is the current folder"
    if not fact["inside"]:
        return f"{what}, which is outside the workspace; copy it into the workspace and add it to {attribute}"
    if fact["verb"] == "lists":
        return f"{what}, whose files are not declared inputs; add those that it needs to {attribute}"
    return f"{what}, which is not a declared input; add it to {attribute}"


def _attribute(action: Action, path: str) -> str:
    """Return the attribute that a file most likely belongs to."""
    if path.endswith((".py", ".pyi")):
        return next(iter(action.python), "srcs")
    return "data" if action.python else next((i.name for i in action.inputs), "srcs")


def _killed(ended: EndedProcess) -> str:
    name = signal.Signals(-ended.status).name
    if name == "SIGKILL":
        return f"killed by SIGKILL (out of memory? peak {ended.max_rss / 2**30:.1f} GiB)"
    return f"killed by {name}"


def _uncovered(action: Action, module: str) -> str:
    return (
        f"internal error in step {action.step}: it loads {module}, which no import statement in its source names, so "
        "its key does not contain it"
    )


@cache
def _owners(path: tuple[str, ...]) -> Mapping[str, list[str]]:
    """Return the canonical names of the distributions with each top-level module. Slow: reads the file lists of all
    installed distributions."""
    from importlib import metadata

    found: dict[str, list[str]] = {}
    for each in metadata.distributions(path=list(path)):
        files = each.files or ()
        listed = (each.read_text("top_level.txt") or "").split()
        for top in listed or {file.parts[0].partition(".")[0] for file in files if file.suffix in (".py", ".so")}:
            found.setdefault(top, []).append(canonical(each.metadata["Name"]))
    return found
