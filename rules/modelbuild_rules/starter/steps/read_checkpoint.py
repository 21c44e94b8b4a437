"""Print the contents of a checkpoint as JSON: `python -m modelbuild_rules.starter.steps.read_checkpoint FILE`.

Nothing in the file is executed: pickles are read as weights only. An error is one line on stderr, and exit code 1.

Private names used, checked on torch 2.14.0: torch.utils._pytree.tree_unflatten, torch.utils._sympy.numbers.int_oo, and
torch.SymInt.node.expr. None is patched.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, TensorArgument
from torch.utils import _pytree as pytree
from torch.utils._sympy.numbers import int_oo

from modelbuild.step import StepError
from modelbuild_rules.model.steps.eager.archive import archive_kind, load_program
from modelbuild_rules.model.steps.eager.entry import read_state_dict

if TYPE_CHECKING:
    from modelbuild_rules.starter.documents import Checkpoint, CheckpointInput

# The maximum size of a dimension without an upper bound.
_UNBOUNDED = 64


def read_checkpoint(path: Path) -> Checkpoint:
    """Return the contents of a state dict, an exported program or TorchScript. Raises StepError for other files."""
    kind = archive_kind(path)
    found: Checkpoint = {"kind": kind or "state dict", "tensors": [], "inputs": [], "call": None, "dynamic": {}}
    if kind is None:
        found["tensors"] = [(name, _dtype(each), list(each.shape)) for name, each in read_state_dict(path).items()]
    elif kind == "exported program":
        program = load_program(path)
        sizes = _Sizes(program.range_constraints)
        found["inputs"], found["call"] = _signature(program, sizes)
        found["dynamic"] = sizes.dynamic
    return found


class _Sizes:
    """Names the dimensions of variable size."""

    def __init__(self, ranges: Mapping[Any, Any]) -> None:
        self._ranges = ranges
        self.dynamic: dict[str, str | dict[str, int]] = {}

    def of(self, tensor: torch.Tensor) -> list[int | str]:
        return [size if isinstance(size, int) else self._name(size.node.expr) for size in tensor.shape]

    def _name(self, expr: Any) -> str:
        if not expr.is_Symbol:
            for symbol in sorted(expr.free_symbols, key=str):
                self._name(symbol)
            text = str(expr)
            known = [name for name, each in self.dynamic.items() if each == text]
            name = known[0] if known else f"d{len(self.dynamic)}"
            self.dynamic[name] = text
            return name
        name = str(expr)
        bounds = self._ranges[expr]
        low = int(bounds.lower)
        high = max(_UNBOUNDED, 2 * low) if bounds.upper == int_oo else int(bounds.upper)
        self.dynamic[name] = {"min": low, "max": high}
        return name


def _signature(program: Any, sizes: _Sizes) -> tuple[list[CheckpointInput], str | None]:
    """Return the inputs of an exported program and the call of its forward; None for all inputs by position."""
    values = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    inputs: list[CheckpointInput] = []
    leaves: list[str] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is not InputKind.USER_INPUT:
            continue
        if isinstance(spec.arg, TensorArgument):
            tensor = values[spec.arg.name]
            inputs.append({"name": spec.arg.name, "shape": sizes.of(tensor), "dtype": _dtype(tensor)})
            leaves.append(spec.arg.name)
        elif isinstance(spec.arg, ConstantArgument):
            leaves.append(repr(spec.arg.value))
        else:
            raise StepError(f"its input '{spec.arg.name}' is no tensor; expected tensors, numbers and texts")
    args, kwargs = pytree.tree_unflatten(leaves, program.call_spec.in_spec)
    call = ", ".join((*(_written(each) for each in args), *(f"{name}={_written(v)}" for name, v in kwargs.items())))
    return inputs, None if call == ", ".join(each["name"] for each in inputs) else call


def _written(value: Any) -> str:
    """Return a tree of leaves, which are Python text already, as Python text."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {_written(each)}' for key, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_written, value))}{',' * (len(value) == 1)})"
    return str(value)


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def main() -> None:
    try:
        print(json.dumps(read_checkpoint(Path(sys.argv[1]))))
    except (StepError, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
