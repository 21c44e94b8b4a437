"""Analyse a revision in a separate process, so that its rule packages do not mix with another revision's."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable
from typing import Any

from modelbuild.errors import EnvironmentProblem


def in_child(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the result of `work`, called in a forked process. Raises EnvironmentProblem if the process crashes."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            gc.disable()  # all objects are needed to the end
            with os.fdopen(writer, "w") as pipe:
                json.dump(work(), pipe)
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    if os.waitpid(child, 0)[1] != 0:
        raise EnvironmentProblem("a revision could not be analysed: its process crashed")
    found: dict[str, Any] = json.loads(text)
    return found
