"""One-line descriptions of errors in rule packages."""

from __future__ import annotations

import traceback
from pathlib import Path


def describe_error(error: BaseException, folder: Path, root: Path) -> str:
    """Return `NameError: name 'x' is not defined (tools/rules/x.py:7)`: the error, and the last line on its stack in
    the package at `folder`. The path is relative to the workspace at `root`, or begins with the package."""
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    text = str(error)
    if isinstance(error, SyntaxError):
        frames.append((error.filename or "", error.lineno))
        text = error.msg
    passed = [(Path(name), line) for name, line in frames if Path(name).is_relative_to(folder)]
    if not passed:
        return f"{type(error).__name__}: {text}"
    file, line = passed[-1]
    shown = file.relative_to(root if file.is_relative_to(root) else folder.parent)
    return f"{type(error).__name__}: {text} ({shown}:{line})"


def describe_callback_error(error: Exception) -> str:
    """Return describe_error() for the package of the function that the caller called, the second frame of the stack."""
    called = traceback.extract_tb(error.__traceback__)[1:]
    folder = Path(called[0].filename).parent if called else Path()
    return describe_error(error, folder, folder.parent)
