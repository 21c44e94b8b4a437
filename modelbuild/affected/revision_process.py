"""Look at a revision in a process of its own, so that its rule packages are not mixed up with another's."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable
from typing import Any

from modelbuild.errors import EnvironmentProblem


def in_child(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run in a forked process. Raises EnvironmentProblem when that ends early."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            gc.disable()  # all that is made is needed to the end
            with os.fdopen(writer, "w") as pipe:
                json.dump(work(), pipe)
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    if os.waitpid(child, 0)[1] != 0:
        raise EnvironmentProblem("a revision could not be analysed: its process ended early")
    found: dict[str, Any] = json.loads(text)
    return found
