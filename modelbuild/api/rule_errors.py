"""A mistake in a rule package, in a line that its author can use."""

from __future__ import annotations

import traceback
from pathlib import Path


def told(error: BaseException, folder: Path, root: Path) -> str:
    """`NameError: name 'x' is not defined (tools/rules/x.py:7)`: what was raised, and the last line of the package in
    `folder` that it passed. Files of the workspace at `root` are named as in it, others from the package on."""
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


def told_of_callback(error: Exception) -> str:
    """As told(), of the package whose code was called by the one that caught the error, if it was raised there."""
    called = traceback.extract_tb(error.__traceback__)[1:]
    folder = Path(called[0].filename).parent if called else Path()
    return told(error, folder, folder.parent)
