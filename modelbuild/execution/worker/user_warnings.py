"""Show warnings that the user's code causes, and not those that libraries cause among themselves."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection
from types import FrameType
from typing import TextIO

_OURS = ("modelbuild", "modelbuild_rules")


def only_of_users(user_file: Callable[[str], str], packages: Collection[str]) -> None:
    """Show a warning only if a function of the user is being called: in a file for which `user_file` returns a path, or
    in a rule package among `packages` that is not modelbuild's."""
    show = warnings.showwarning
    own = frozenset(packages) - {*_OURS}

    def is_users(frame: FrameType) -> bool:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        return package in own or bool(user_file(frame.f_code.co_filename))

    def shown(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not is_users(frame):
            frame = frame.f_back
        if frame is not None or user_file(filename):
            show(message, category, filename, lineno, file, line)

    warnings.showwarning = shown
