"""Extract partitions from a program without compiling the rest of it each time.

For each partition, executorch sorts the remaining program, and torch.fx generates and compiles its Python code, and
that of all partitions before. No pass runs this code: passes interpret graphs. So it is compiled when it is first
called.

A private name of executorch is patched while the context lasts; executorch_private.py lists it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from executorch.exir.backend import backend_api
from torch.fx import GraphModule

_COMPILE = GraphModule.recompile


@contextmanager
def compiled_late() -> Iterator[None]:
    """Compile the code of a program that loses partitions when it is called, while the context lasts."""
    extract = backend_api.create_submodule_from_nodes

    def extracted(*given: Any, **options: Any) -> Any:
        with patch.object(GraphModule, "recompile", _postpone):
            return extract(*given, **options)

    with patch.object(backend_api, "create_submodule_from_nodes", extracted):
        yield


def _postpone(module: GraphModule) -> None:
    if not hasattr(module, "_code"):
        _COMPILE(module)  # a new module, which has to be complete
    type(module).forward = _compiled


def _compiled(module: GraphModule, *args: Any, **kwargs: Any) -> Any:
    _COMPILE(module)
    return module.forward(*args, **kwargs)
