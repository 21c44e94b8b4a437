"""Make backends capture partitions instead of compiling them, and put placeholders into the program.

For each partition, torch.fx generates and compiles the Python code of the remaining program and of all earlier
partitions. No pass runs this code: passes interpret graphs. So the code is compiled only when it is first called.

Private names of executorch are patched while the context lasts; executorch_private.py lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from executorch.exir._serialize._named_data_store import NamedDataStoreOutput
from executorch.exir._serialize.data_serializer import DataEntry
from executorch.exir.backend import backend_api
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from torch.fx import GraphModule

from modelbuild_rules.program.steps.lowering.patches.arrange import arranged, sorted_stably
from modelbuild_rules.program.steps.partitions.placeholder import placeholder

Capture = Callable[[Any, Sequence[Any]], str]
"""Stores a partition (a separate edge ExportedProgram) and its compile specs, and returns the partition's id."""

_COMPILE = GraphModule.recompile


@contextmanager
def captured(backend_ids: Iterable[str], capture: Capture) -> Iterator[None]:
    """Make backends (ids: names of BackendDetails subclasses) capture partitions while the context lasts."""

    def preprocess(program: Any, specs: Sequence[Any]) -> PreprocessResult:
        mark = placeholder(capture(program, specs))
        # An entry under the placeholder reserves the position of the partition's entries in the program's named data.
        named = NamedDataStoreOutput([mark], {mark.decode(): DataEntry(0, 1, None)}, {})
        return PreprocessResult(processed_bytes=mark, debug_handle_map={}, data_store_output=named)

    # Patched in the base class, because some backends override it to process all partitions at once.
    each: Any = classmethod(BackendDetails.preprocess_multimethod.__func__)
    wanted = set(backend_ids)  # several classes may have one name
    with ExitStack() as stack:
        stack.enter_context(arranged())
        stack.enter_context(sorted_stably())
        stack.enter_context(compiled_late())
        for backend in [cls for cls in BackendDetails.__subclasses__() if cls.__name__ in wanted]:
            stack.enter_context(patch.object(backend, "preprocess", staticmethod(preprocess)))
            stack.enter_context(patch.object(backend, "preprocess_multimethod", each))
        yield


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
        _COMPILE(module)  # a new module, which must be complete
    type(module).forward = _compiled


def _compiled(module: GraphModule, *args: Any, **kwargs: Any) -> Any:
    _COMPILE(module)
    return module.forward(*args, **kwargs)
