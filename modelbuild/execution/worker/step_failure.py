"""Describe a step's failure: an error that the user can fix, an error in the user's code, or an internal error."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modelbuild.execution.worker.audit_hook import AuditHook, NoNetwork, UndeclaredRead
from modelbuild.step import StepError, namesakes

if TYPE_CHECKING:
    from modelbuild.execution.orders import End, Read

_UNREADABLE = re.compile(
    r"no such file|permission denied|not found|cannot (open|read)|can't (open|read)|failed to", re.I
)
_PATHS = re.compile(r"[^\s'\"`<>|:,;()\[\]{}]+")
_NOT_APART = " (this machine gives actions neither Unix sockets nor shared memory: see modelbuild info sandbox)"
_INSTALLED = "/site-packages/"
_NOT_IN_PACKAGE = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")


def end(error: BaseException, hook: AuditHook) -> End:
    """Return the last object of the worker's report."""
    chain = list(_chain(error))
    reader = next(filter(None, (_reader(link, hook) for link in chain)), "")
    facts: list[Read] = [
        {**fact, "reader": fact["reader"] or reader} for link in chain for fact in _undeclared(link, hook)
    ]
    for fact in facts:
        if not fact["unseen"]:
            return {"end": "undeclared", "perhaps": [fact]}
    return {**_other_end(error, chain, reader, hook), "perhaps": facts}


def _other_end(error: BaseException, chain: list[BaseException], reader: str, hook: AuditHook) -> End:
    for link in chain:
        if isinstance(link, NoNetwork):
            return {"end": "network", "text": str(link.strerror), "reader": reader}
    if isinstance(error, StepError):
        return {"end": "failed", "text": str(error).replace(hook.root, "")}
    text = _user_traceback(error, chain, hook)
    hint = _NOT_APART if hook.sockets == frozenset() and any(map(_is_of_processes, chain)) else ""
    missing = next((link.name for link in chain if isinstance(link, ModuleNotFoundError)), None) or ""
    if text is not None:
        hint += next(filter(None, map(namesakes, chain)), "")
        return {"end": "user", "text": text.replace(hook.root, "") + hint, "missing": missing}
    traceback.print_exception(error)
    first = _last_line(error).partition("\n")[0]  # libraries add lines about graphs
    return {"end": "internal", "text": first.replace(hook.root, "") + hint, "missing": missing}


def _is_of_processes(error: BaseException) -> bool:
    """Return whether an error may be caused by shared memory or sockets: a refusal without an existing path."""
    return isinstance(error, PermissionError) and not (error.filename and os.path.lexists(error.filename))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, its cause, and so on."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _undeclared(error: BaseException, hook: AuditHook) -> list[Read]:
    """Return facts about files that may have caused the error."""
    if isinstance(error, UndeclaredRead):
        return [error.fact]
    reader = _reader(error, hook)
    if isinstance(error, ImportError):
        return [hook.fact(path, "imports", reader) for path in _missing_modules(error, hook)]
    if isinstance(error, StepError) or not _UNREADABLE.search(str(error)):
        return []
    # Native code failed to read a file; its message is the only source of the path.
    named = [error.filename] if isinstance(error, OSError) and isinstance(error.filename, str) else []
    paths = dict.fromkeys(hook.undeclared(name) for name in [*named, *_PATHS.findall(str(error)[:10_000])])
    return [hook.fact(path, "reads", reader) for path in paths if path is not None]


def _missing_modules(error: ImportError, hook: AuditHook) -> list[str]:
    """Return the files of the workspace that an import would find if they were declared."""
    name = error.name or ""
    if match := _NOT_IN_PACKAGE.match(str(error)):
        name = f"{match[2]}.{match[1]}"
    elif not isinstance(error, ModuleNotFoundError):
        return []
    parent, _, last = name.rpartition(".")
    found = []
    for folder in list(getattr(sys.modules.get(parent), "__path__", ())) if parent else sys.path:
        relative = os.path.relpath(os.path.join(os.getcwd(), folder), hook.root)
        if not relative.startswith(".."):
            base = os.path.normpath(os.path.join(hook.workspace, relative, last))
            found += [base + ".py", base + "/__init__.py"]
    return found


def _reader(error: BaseException, hook: AuditHook) -> str:
    files = [hook.user_file(frame.filename) for frame in _frames(error)]
    return next((file for file in reversed(files) if file), "")


def _frames(error: BaseException) -> traceback.StackSummary:
    return traceback.extract_tb(error.__traceback__)


def _user_traceback(error: BaseException, chain: list[BaseException], hook: AuditHook) -> str | None:
    """Return the traceback with only the user's frames, with paths in the workspace, and the line of an installed
    library that raised the exception; None if no frame is in the user's code."""
    for link in chain:
        lines: list[str] = []
        frames = _frames(link)
        for frame in frames:
            if file := hook.user_file(frame.filename):
                lines += _described(frame, file)
        if lines and _INSTALLED in frames[-1].filename and not hook.user_file(frames[-1].filename):
            lines += _described(frames[-1], frames[-1].filename.rpartition(_INSTALLED)[2])
        if isinstance(link, SyntaxError) and (file := hook.user_file(link.filename or "")):
            lines.append(f'  File "{file}", line {link.lineno}\n    {(link.text or "").strip()}\n')
        if lines:
            return "".join(["Traceback (most recent call last):\n", *lines, _last_line(error)])
    return None


def _described(frame: traceback.FrameSummary, file: str) -> list[str]:
    line = f"    {frame.line}\n" if frame.line else ""
    return [f'  File "{file}", line {frame.lineno}, in {frame.name}\n', line]


def _last_line(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    return "".join(traceback.format_exception_only(error)).strip()
