"""A program's inputs and outputs by name: signature.json, whose format modelbuild_runtime.files.signature describes.

Private names used, checked on torch 2.14.0: torch.utils._pytree.tree_unflatten. Not patched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import ConstantArgument, OutputKind
from torch.utils import _pytree as pytree

from modelbuild.step import StepError
from modelbuild_rules.model.steps.eager.results import named_leaves
from modelbuild_rules.model.steps.exported.dimensions import names_of_symbols

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import (
        DynamicDimension,
        MethodSignature,
        ModelParams,
        Signature,
        SignatureInput,
        SignatureOutput,
        SizeRange,
    )

VERSION = 2
RETURNED = frozenset(
    {torch.bool, torch.float16, torch.bfloat16, torch.float32, torch.float64}
    | {torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64}
)
"""The types of tensors that the runtime returns."""

_SCALARS = {torch.SymInt: "int", torch.SymFloat: "float", torch.SymBool: "bool"}


def signature(program: Any, params: ModelParams, examples: Sequence[torch.Tensor]) -> Signature:
    """Return the signature of an exported program. Raises StepError if `outputs` has the wrong number of names."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    declared = [each["shape"] or list(example.shape) for each, example in zip(params["inputs"], examples, strict=True)]
    found = [[_constant(size) for size in values[name].shape] for name in program.graph_signature.user_inputs]
    symbols = names_of_symbols(declared, found, params["dynamic"])
    inputs: list[SignatureInput] = []
    for each, example, wanted, sizes in zip(params["inputs"], examples, declared, found, strict=True):
        # A dimension that torch.export found to be constant is a number.
        shape = [size if isinstance(size, int) else name for name, size in zip(wanted, sizes, strict=True)]
        inputs.append(
            {
                "name": each["name"],
                "dtype": _dtype(example.dtype),
                "shape": shape,
                "dynamic": _dynamic(shape, params["dynamic"]),
                "range": each["range"],
            }
        )
    specs = [spec for spec in program.graph_signature.output_specs if spec.kind == OutputKind.USER_OUTPUT]
    outputs = [s.arg.value if isinstance(s.arg, ConstantArgument) else values[s.arg.name] for s in specs]
    names = params["outputs"] or _names(program)
    for name, value in zip(names, outputs, strict=False):
        if isinstance(value, torch.Tensor) and value.dtype not in RETURNED:
            hint = ": torch.view_as_real, or .abs()" if value.is_complex() else ""
            raise StepError(
                f"the module returns {_dtype(value.dtype)} in '{name}', which programs do not; expected numbers of"
                f" another type{hint}"
            )
    if len(names) != len(outputs):
        given = f"{len(outputs)} output{'' if len(outputs) == 1 else 's'}"
        raise StepError(f"the module returns {given}; the attribute 'outputs' names {len(names)}")
    for index, name in enumerate(names):
        if name in names[:index]:
            raise StepError(f"the module returns two outputs '{name}'; expected their names in the attribute 'outputs'")
    ports: MethodSignature = {
        "inputs": inputs,
        "outputs": [_output(name, value, symbols) for name, value in zip(names, outputs, strict=True)],
    }
    return {"version": VERSION, "methods": {params["method"]: ports}}


def _constant(size: Any) -> Any:
    """Return a size as a number if torch.export found that it is constant; else unchanged."""
    return int(size) if isinstance(size, torch.SymInt) and size.node.expr.is_number else size


def _names(program: Any) -> list[str]:
    """Return the outputs' names by their places in the returned containers. A single output that no dictionary names is
    `output`."""
    spec = program.call_spec.out_spec
    returned = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    if spec.num_leaves == 1 and not isinstance(returned, dict):
        return ["output"]
    return [name for name, _ in named_leaves(returned)]


def _output(name: str, value: Any, symbols: Mapping[str, str]) -> SignatureOutput:
    if not isinstance(value, torch.Tensor):
        return {"name": name, "dtype": _SCALARS.get(type(value), type(value).__name__), "shape": []}
    shape = [size if isinstance(size, int) else _named(str(size), symbols) for size in value.shape]
    return {"name": name, "dtype": _dtype(value.dtype), "shape": shape}


def _named(size: str, symbols: Mapping[str, str]) -> str:
    """Return a size with its symbols replaced by the declared names of input dimensions that have names."""
    return re.sub(r"\w+", lambda word: symbols.get(word[0], word[0]), size)


def _dynamic(shape: Sequence[int | str], dynamic: Mapping[str, DynamicDimension]) -> dict[str, SizeRange]:
    """Return the dimensions that a shape names, and the dimensions that these depend on."""
    names = [size for size in shape if isinstance(size, str)]
    return {name: _bounds(dynamic[name]) for size in names for name in (size, *dynamic[size].get("terms", ()))}


def _bounds(dynamic: DynamicDimension) -> SizeRange:
    found: SizeRange = {"min": dynamic["min"], "max": dynamic["max"]}
    if "terms" in dynamic:
        found |= {"terms": dynamic["terms"], "plus": dynamic["plus"]}
    return found


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
