"""The operators of a workspace's own kernel libraries in the process of a step.

A model's code registers them with torch.library. A step that only reads a program imports the registering files; it
then has schemas, shapes of results, and eager mode's values. An out variant, which a kernel implements, is derived from
an operator's schema if the files define none.

Private names used, checked on torch 2.14.0: torch._C._dispatch_get_all_op_names, OpOverload (_schema, _overloadname),
torchgen.model. None is patched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torchgen.model import FunctionSchema, SchemaKind  # type: ignore[import-untyped]

from modelbuild.errors import did_you_mean
from modelbuild.step import StepError
from modelbuild_rules.operators.steps.source_files import import_source

if TYPE_CHECKING:
    from modelbuild_rules.kernels.documents import GivenLibrary
    from modelbuild_rules.program.documents import ManifestKernels

_DECLARED: set[str] = set()
_KERNELS: dict[str, str] = {}  # names of kernels, as "my_ops::scale.out", and their libraries
_KEPT: list[Any] = []  # registrations end with their library


def declare(libraries: Iterable[GivenLibrary]) -> None:
    """Let programs of this process contain the libraries' operators."""
    for library in libraries:
        _DECLARED.update(map(_dotted, library["operators"]))


def is_declared(operator: str) -> bool:
    """Return whether a program may contain an operator, given as "my_ops.scale.default"."""
    return operator in _DECLARED


def load(root: Path, libraries: Sequence[GivenLibrary]) -> None:
    """Register the operators of libraries, with their out variants, unless the process has them. Raises StepError for
    an operator that the libraries' files do not register, or that no kernel can implement."""
    declare(libraries)
    for library in libraries:
        if any(_overload(name) is None for name in library["operators"]):
            for path in library["eager"]:
                import_source(root, path)
        for name in library["operators"]:
            _KERNELS[kernel_name(out_variant(name, library["eager"]))] = library["library"]


def kernels() -> frozenset[str]:
    """Return the names of the loaded libraries' kernels, as "my_ops::scale.out"."""
    return frozenset(_KERNELS)


def needed(operators: Iterable[str]) -> list[ManifestKernels]:
    """Return the loaded libraries that a program with these operators needs, as its manifest lists them."""
    found: dict[str, list[str]] = {}
    for operator in sorted(_KERNELS.keys() & set(operators)):
        found.setdefault(_KERNELS[operator], []).append(operator)
    return [{"library": name, "operators": found[name]} for name in sorted(found)]


def kernel_name(operator: Any) -> str:
    """Return the name of an operator's kernel: "my_ops::scale.out"."""
    schema = operator._schema
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)


def out_variant(name: str, files: Sequence[str]) -> Any:
    """Return the variant of an operator that writes its results to output arguments. `files` register the operator."""
    operator = _overload(name)
    if operator is None:
        known = [each for each in _registered(name.partition("::")[0]) if "." not in each or "." in name]
        where = ", ".join(files) or "torch"
        raise StepError(f"{where} registers no operator '{name}'{did_you_mean(name, known)}")
    schema = _checked(name, operator)
    packet = operator.overloadpacket
    for each in packet.overloads():
        other = _schema(getattr(packet, each))
        if other is not None and other.kind() == SchemaKind.out and _arguments(other) == _arguments(schema):
            return getattr(packet, each)
    overload = "out" if operator._overloadname == "default" else f"{operator._overloadname}_out"
    namespace, _, rest = name.partition("::")
    library = torch.library.Library(namespace, "FRAGMENT")
    _KEPT.append(library)
    library.define(_with_outputs(f"{rest.partition('.')[0]}.{overload}", schema))
    return getattr(packet, overload)


def _schema(operator: Any) -> FunctionSchema | None:
    """Return an operator's schema; None for types that no kernel can have."""
    try:
        return FunctionSchema.parse(str(operator._schema))
    except (AssertionError, RuntimeError, ValueError):
        return None


def _arguments(schema: FunctionSchema) -> Any:
    """Return an operator's arguments without outputs, for comparison."""
    return replace(schema.signature(), returns=()).arguments


def _checked(name: str, operator: Any) -> FunctionSchema:
    """Return an operator's schema. Raises StepError unless it computes new tensors from its arguments."""
    written = operator._schema
    if any(each.alias_info is not None for each in (*written.arguments, *written.returns)):
        raise StepError(f"{name}: {written} changes or returns an argument; expected new tensors as results")
    schema = _schema(operator)
    if schema is None:
        raise StepError(f"{name}: {written} has a type that kernels cannot have")
    if not schema.returns or any(str(each.type) != "Tensor" for each in schema.returns):
        raise StepError(f"{name}: {written} does not return tensors; expected one or more")
    return schema


def _with_outputs(name: str, schema: FunctionSchema) -> str:
    """Return the schema of an operator's variant with output arguments."""
    count = len(schema.returns)
    names = ["out"] if count == 1 else [f"out{index}" for index in range(count)]
    types = [f"Tensor({chr(ord('a') + index)}!)" for index in range(count)]
    positional = [str(each) for each in schema.arguments.flat_positional]
    keywords = [str(each) for each in schema.arguments.flat_kwarg_only]
    outputs = [f"{kind} {out}" for kind, out in zip(types, names, strict=True)]
    arguments = ", ".join([*positional, "*", *keywords, *outputs])
    returned = types[0] if count == 1 else f"({', '.join(types)})"
    return f"{name}({arguments}) -> {returned}"


def _dotted(name: str) -> str:
    namespace, _, rest = name.partition("::")
    return f"{namespace}.{rest}" if "." in rest else f"{namespace}.{rest}.default"


def _overload(name: str) -> Any:
    """Return a registered operator; None if there is none."""
    found: Any = torch.ops
    for part in _dotted(name).split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            return None
    return found


def _registered(namespace: str) -> list[str]:
    names = torch._C._dispatch_get_all_op_names()
    return sorted({name for name in names if name.startswith(f"{namespace}::")})
