"""Read and write ExecuTorch's program schema as Python objects, without importing torch.

The generated classes and flatc are private to executorch: backend_api/steps/executorch_private.py
lists them.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import pkgutil
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from modelbuild_rules.backend_api.documents import TensorLayout

_PARENTS = ("executorch.exir", "executorch.exir._serialize")
_GENERATED = "executorch.exir._serialize.generated.executorch_flatbuffer"


@cache
def installed() -> Path:
    """Return the folder of the installed executorch package."""
    spec = importlib.util.find_spec("executorch")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'executorch'", name="executorch")
    return Path(next(iter(spec.submodule_search_locations)))


@contextmanager
def _without_parents() -> Iterator[None]:
    """Allow imports of modules below executorch.exir without executorch/exir/__init__.py, which imports torch."""
    if "executorch.exir" in sys.modules:
        yield
        return
    for name in _PARENTS:
        package = types.ModuleType(name)
        package.__path__ = [str(installed().parent.joinpath(*name.split(".")))]
        sys.modules[name] = package
    try:
        yield
    finally:
        for name in _PARENTS:
            del sys.modules[name]


@cache
def schema() -> Mapping[str, types.ModuleType]:
    """Return the generated modules by name ("Program", "NamedData", ...)."""
    with _without_parents():
        package = importlib.import_module(_GENERATED)
        names = [info.name for info in pkgutil.iter_modules(package.__path__)]
        modules = {name: importlib.import_module(f"{_GENERATED}.{name}") for name in names}
    for module in modules.values():
        # The generated code calls `ExecutionPlan()`, but its imports bind that name to the module, not the class.
        for name, value in list(vars(module).items()):
            if isinstance(value, types.ModuleType) and isinstance(getattr(value, name, None), type):
                setattr(module, name, getattr(value, name))
    return modules


def read_program(data: bytes) -> Any:
    """Return the ProgramT of a .pte's flatbuffer (with or without its extended header)."""
    return schema()["Program"].ProgramT.InitFromPackedBuf(data)


def write_program(program: Any) -> bytes:
    """Return the flatbuffer of a ProgramT, with the bytes that executorch writes."""
    import flatbuffers  # type: ignore[import-untyped]

    builder = flatbuffers.Builder()
    builder.Finish(program.Pack(builder), file_identifier=b"ET12")
    return bytes(builder.Output())


def new(table: str, **fields: Any) -> Any:
    """Return a new table object, as in `new("NamedData", key="k", segmentIndex=1)`."""
    made = getattr(schema()[table], f"{table}T")()
    for name, value in fields.items():
        if not hasattr(made, name):
            raise AttributeError(f"{table} has no field {name}")
        setattr(made, name, value)
    return made


class Extent(TypedDict):
    """The place of a segment in a .ptd, in bytes after the end of the header and the flatbuffer."""

    offset: int
    size: int


class NamedSegment(TypedDict):
    """An entry of a .ptd's named data, and the index of its segment."""

    key: str
    segment_index: int
    tensor_layout: TensorLayout | None


class FlatTensor(TypedDict):
    """The root table of flat_tensor.fbs."""

    version: int
    segments: list[Extent]
    named_data: list[NamedSegment]


def write_flat_tensor(description: FlatTensor) -> bytes:
    """Return the flatbuffer of a .ptd (extension/flat_tensor), which executorch's own flatc makes from its JSON."""
    with tempfile.TemporaryDirectory() as folder:
        described = Path(folder, "flat_tensor.json")
        described.write_text(json.dumps(description))
        source = installed() / "extension/flat_tensor/serialize/flat_tensor.fbs"
        flatc = installed() / "data/bin/flatc"
        subprocess.run([flatc, "--binary", "-o", folder, source, described], check=True)
        return Path(folder, "flat_tensor.ptd").read_bytes()
