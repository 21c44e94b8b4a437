"""Troubles of the disk, as one line each."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from modelbuild.errors import EnvironmentProblem

Warn: TypeAlias = Callable[[str], None]

_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO, errno.ELOOP, errno.ESTALE, errno.ENOTDIR)


def warn_on_stderr(message: str) -> None:
    print(f"modelbuild: warning: {message}", file=sys.stderr)


def no_space(directory: Path) -> EnvironmentProblem:
    return EnvironmentProblem(f"{directory}: no space left on the disk; free some, then build again")


@contextmanager
def explained(directory: Path) -> Iterator[None]:
    """Raises EnvironmentProblem for an OSError that the machine is to blame for; any other passes."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise no_space(directory) from error
        if error.errno in _DENIED:
            raise EnvironmentProblem(f"{error.filename or directory}: {error.strerror}") from error
        raise
