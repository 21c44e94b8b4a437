"""Describe the operators of a kernel library, for the compilation of its kernels.

Inputs   eager      the Python files that register the operators; none for operators of torch
Params   library    GivenLibrary of kernels/documents.py
Outputs  operators  JSON: [KernelOperator]
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from torchgen.model import FunctionSchema  # type: ignore[import-untyped]

from modelbuild.step import Step, StepError
from modelbuild_rules.backend_api.steps import executorch_private
from modelbuild_rules.kernels.steps import builtin
from modelbuild_rules.operators.steps import custom

if TYPE_CHECKING:
    from modelbuild_rules.kernels.documents import GivenLibrary, KernelArgument, KernelOperator


def run(step: Step) -> None:
    executorch_private.require()
    library: GivenLibrary = step.params["library"]
    custom.load(step.root, [library])
    found = [_described(custom.out_variant(name, library["eager"])) for name in library["operators"]]
    _check_new([each["name"] for each in found])
    step.outputs["operators"].write_text(json.dumps(found, indent=1) + "\n")


def _described(operator: Any) -> KernelOperator:
    schema = FunctionSchema.parse(str(operator._schema))
    arguments: list[KernelArgument] = [
        {"name": each.name, "type": _type(each), "out": False}
        for each in (*schema.arguments.flat_positional, *schema.arguments.flat_kwarg_only)
    ]
    outputs: list[KernelArgument] = [
        {"name": each.name, "type": "Tensor", "out": True} for each in schema.arguments.out
    ]
    return {"name": custom.kernel_name(operator), "schema": str(operator._schema), "arguments": arguments + outputs}


def _type(argument: Any) -> str:
    """Return the type of an argument, without the length of a list and without a symbol's for a number."""
    return re.sub(r"\[\d+\]", "[]", str(argument.type)).replace("SymInt", "int")


def _check_new(names: list[str]) -> None:
    """Raise StepError if ExecuTorch or modelbuild has a kernel of one of these names, because programs would use it
    instead."""
    names_of_executorch = set(executorch_private.bindings()._get_operator_names())
    # Checked first: after our library is loaded, ExecuTorch's list also has our kernels.
    for owner, known in ((builtin.LIBRARY, builtin.OPERATORS), ("ExecuTorch", names_of_executorch)):
        for name in sorted(known.intersection(names)):
            raise StepError(f"{owner} has a kernel {name}; expected operators that have none")
