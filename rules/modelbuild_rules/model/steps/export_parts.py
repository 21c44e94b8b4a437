"""Export a PyTorch module of which some or all submodules were compiled elsewhere.

Inputs, params and outputs are the export step's, with PartParams of model/documents.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from modelbuild.step import Step
from modelbuild_rules.model.steps.eager.module import make_module, model_name
from modelbuild_rules.model.steps.export import export_module
from modelbuild_rules.model.steps.exported.compiled_part import CompiledPart, replace_submodules

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import PartParams


def run(step: Step) -> None:
    params = cast("PartParams", step.params)
    whole = params["parts"].get("")
    if whole is not None:
        export_module(step, CompiledPart(whole), params, whole["name"], runs=False)
        return
    name = model_name(params, step.inputs)
    step.progress("loading the model")
    module = make_module(step.root, params, step.inputs)
    export_module(step, replace_submodules(module, params["parts"]), params, name, runs=False)
