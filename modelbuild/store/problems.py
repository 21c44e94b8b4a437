"""Disk errors, each as one line."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from modelbuild.errors import EnvironmentProblem

Warn: TypeAlias = Callable[[str], None]

FULL = (errno.ENOSPC, errno.EDQUOT)
NO_SPACE = os.strerror(errno.ENOSPC)  # as programs print it


def warn_on_stderr(message: str) -> None:
    print(f"modelbuild: warning: {message}", file=sys.stderr)


def no_space(directory: Path) -> EnvironmentProblem:
    return EnvironmentProblem(f"{directory}: no space left on the disk; free some, then build again")


@contextmanager
def explained(directory: Path) -> Iterator[None]:
    """Raise EnvironmentProblem for an OSError. FileExistsError and FileNotFoundError pass: the caller may handle
    them."""
    try:
        yield
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError as error:
        if error.errno in FULL:
            raise no_space(directory) from error
        raise EnvironmentProblem(f"{error.filename2 or error.filename or directory}: {error.strerror}") from error
