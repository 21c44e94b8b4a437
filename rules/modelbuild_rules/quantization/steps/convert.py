"""Quantize a program by a recipe: weights are stored as integers, and activations have the observed ranges.

Inputs   program, weights   trees, as model/steps/exported/program.py writes them
         modules            JSON: Modules of quantization/documents.py
         examples           safetensors: example inputs by position
         observed           the output of steps/calibrate.py; absent for a recipe that needs no data
Params   RecipeParams of quantization/documents.py
Outputs  program, weights   trees, likewise
         origins            JSON: Origins of quantization/documents.py
"""

from __future__ import annotations

import json
from typing import Any

import torch
from safetensors.torch import load_file

from modelbuild.step import Step, StepError
from modelbuild_rules.model.steps.exported.program import save_program
from modelbuild_rules.quantization.steps.again import export_again
from modelbuild_rules.quantization.steps.linears import quantize_linears
from modelbuild_rules.quantization.steps.prepared import Unlifted, load_ranges, prepare, unlifted
from modelbuild_rules.quantization.steps.stored import name_by_module, remove_unused, share_again, weights_of

_QUANTIZED = ("quantized_decomposed.", "torchao.quantize_affine_float8")


@torch.no_grad()
def run(step: Step) -> None:
    step.progress("reading the program")
    given = unlifted(step, step.params["quantizers"])
    read = load_file(step.input("examples"))
    examples = tuple(read[str(number)] for number in range(len(read)))
    weights = weights_of(given.module)
    step.progress("quantizing")
    module = _quantized(step, given, examples)
    share_again(module, given.copies)
    name_by_module(module, weights, given.copies)
    remove_unused(module)
    given.reset(module)
    if not any(map(_is_quantized, module.graph.nodes)):
        raise StepError("the recipe quantizes no operator of the model; expected a recipe that takes some operators")
    step.progress("exporting")
    program, origins = export_again(module, given.program, examples)
    step.progress("writing the program")
    save_program(program, step.outputs["program"], step.outputs["weights"], values=True)
    step.outputs["origins"].write_text(json.dumps(origins, indent=1) + "\n")


def _is_quantized(node: Any) -> bool:
    # A layer of torchao is a separate module.
    return node.op == "call_module" or "rewritten" in node.meta or str(node.target).startswith(_QUANTIZED)


def _quantized(step: Step, given: Unlifted, examples: tuple[torch.Tensor, ...]) -> torch.fx.GraphModule:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

    quantizers: Any = step.params["quantizers"]
    prepared = prepare(given, quantizers)
    if prepared is None:
        return quantize_linears(given.module, quantizers)
    prepared(*examples)  # observes the weights
    if "observed" in step.inputs:
        load_ranges(prepared, given.mutable, step.input("observed"))
    return quantize_linears(convert_pt2e(prepared), quantizers)
