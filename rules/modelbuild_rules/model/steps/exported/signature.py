"""A program's inputs and outputs by name: signature.json, whose format modelbuild_runtime.signature describes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import ConstantArgument, OutputKind

from modelbuild.step import StepError

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import (
        DynamicDimension,
        ModelParams,
        Signature,
        SignatureInput,
        SignatureOutput,
        SizeRange,
    )

VERSION = 1
_SCALARS = {torch.SymInt: "int", torch.SymFloat: "float", torch.SymBool: "bool"}


def signature(program: Any, params: ModelParams, examples: Sequence[torch.Tensor]) -> Signature:
    """Return the signature of an exported program. Raises StepError if `outputs` has the wrong number of names."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    symbols: dict[str, str] = {}
    inputs: list[SignatureInput] = []
    for each, example, name in zip(params["inputs"], examples, program.graph_signature.user_inputs, strict=True):
        declared = each["shape"] or list(example.shape)
        for size, found in zip(declared, values[name].shape, strict=True):
            if isinstance(size, str):
                symbols[str(found)] = size
        inputs.append(
            {
                "name": each["name"],
                "dtype": _dtype(example.dtype),
                "shape": declared,
                "dynamic": {s: _bounds(params["dynamic"][s]) for s in declared if isinstance(s, str)},
                "range": each["range"],
            }
        )
    specs = [spec for spec in program.graph_signature.output_specs if spec.kind == OutputKind.USER_OUTPUT]
    outputs = [s.arg.value if isinstance(s.arg, ConstantArgument) else values[s.arg.name] for s in specs]
    names = params["outputs"] or _names(program, len(outputs))
    if len(names) != len(outputs):
        given = f"{len(outputs)} output{'' if len(outputs) == 1 else 's'}"
        raise StepError(f"the module returns {given}; the attribute 'outputs' names {len(names)}")
    return {
        "version": VERSION,
        "inputs": inputs,
        "outputs": [_output(name, value, symbols) for name, value in zip(names, outputs, strict=True)],
    }


def _names(program: Any, count: int) -> list[str]:
    """Return the keys if the module returns a dictionary; else `output`, or output0, output1, ..."""
    spec = program.call_spec.out_spec
    if spec.type is dict and len(spec.context) == count:
        return [str(key) for key in spec.context]
    return ["output"] if count == 1 else [f"output{index}" for index in range(count)]


def _output(name: str, value: Any, symbols: Mapping[str, str]) -> SignatureOutput:
    if not isinstance(value, torch.Tensor):
        return {"name": name, "dtype": _SCALARS.get(type(value), type(value).__name__), "shape": []}
    shape = [size if isinstance(size, int) else _named(str(size), symbols) for size in value.shape]
    return {"name": name, "dtype": _dtype(value.dtype), "shape": shape}


def _named(size: str, symbols: Mapping[str, str]) -> str:
    """Return a size with its symbols replaced by the declared names of input dimensions, where they have one."""
    return re.sub(r"\w+", lambda word: symbols.get(word[0], word[0]), size)


def _bounds(dynamic: DynamicDimension) -> SizeRange:
    return {"min": dynamic["min"], "max": dynamic["max"]}


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
