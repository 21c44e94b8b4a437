"""Make the module of a model in eager PyTorch, with its weights."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import update_wrapper
from pathlib import Path
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parameter import is_lazy

from modelbuild.errors import did_you_mean
from modelbuild.step import StepError
from modelbuild_rules.model.steps.eager.archive import load_archive
from modelbuild_rules.model.steps.eager.call import arguments
from modelbuild_rules.model.steps.eager.entry import (
    load_function,
    load_model,
    load_weights,
    seed_generators,
    set_inference_mode,
)
from modelbuild_rules.model.steps.eager.example_inputs import example_inputs
from modelbuild_rules.model.steps.exported.program import load_program
from modelbuild_rules.operators.steps import custom

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import ModelParams


def model_name(params: ModelParams, inputs: Mapping[str, tuple[Path, ...]]) -> str:
    """Return the model's entry, or the name of its archive, for messages."""
    return params["entry"] or (inputs["archive"][0].name if "archive" in inputs else "the program")


def make_module(root: Path, params: ModelParams, inputs: Mapping[str, tuple[Path, ...]]) -> torch.nn.Module:
    """Return the module in evaluation mode, prepared and with its weights. Random numbers drawn meanwhile depend on the
    seed alone. Exceptions of the model's own code are not caught."""
    seed_generators(params["seed"])
    if "exported.program" in inputs:
        program = load_program(inputs["exported.program"][0], inputs["exported.weights"][0])
        return program.module(check_guards=False)
    entry, libraries = params["entry"], params.get("kernels", ())
    custom.declare(libraries)
    if entry is None:  # an entry's code imports the files that register its operators
        custom.load(root, libraries)
    module = load_archive(inputs["archive"][0]) if entry is None else load_model(root, entry, params["kwargs"])
    set_inference_mode(module)
    _call_method(module, params)
    if params["prepare"] is not None:
        examples = example_inputs(params["inputs"], params["dynamic"], params["seed"], inputs)
        module = _prepared(root, params["prepare"], module, params, examples)
        _call_method(module, params)
    _check_initialized(module, model_name(params, inputs))
    files = {prefix: inputs[f"weights.{prefix}"][0] for prefix in params["weights"]}
    load_weights(module, files, params["allow_missing"])
    set_inference_mode(module)
    return module


def _call_method(module: torch.nn.Module, params: ModelParams) -> None:
    """Make a call of the module call the method that the parameters name. Raises StepError if the module lacks the
    method."""
    name = params["method"]
    if name == "forward":
        return
    method = getattr(module, name, None)
    if not inspect.ismethod(method):
        own = [key for key, each in vars(type(module)).items() if inspect.isfunction(each) and not key.startswith("_")]
        raise StepError(f"{params['entry']} has no method '{name}'{did_you_mean(name, own)}")
    module.forward = MethodType(_in_place_of_forward(_named_forward(method.__func__)), module)


def _in_place_of_forward(function: Any) -> Any:
    """Return a function for a module's attribute `forward` that calls another function, which calls the module as
    before."""

    def forward(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        replaced = vars(module).pop("forward")
        try:
            return function(module, *args, **kwargs)
        finally:
            module.forward = replaced

    return update_wrapper(forward, function)


def _named_forward(function: Any) -> Any:
    """Return a copy of a function whose calls are named `forward` in stack traces: torch.export records the source
    lines of these calls only."""
    if not isinstance(function, FunctionType):
        return function
    code = function.__code__.replace(co_name="forward")
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return update_wrapper(made, function)


def _prepared(
    root: Path, function: str, module: torch.nn.Module, params: ModelParams, examples: Sequence[torch.Tensor]
) -> torch.nn.Module:
    """Call the function that prepares a module; return the module that it returns, or the same module."""
    args, kwargs = arguments(module, params, examples)
    with torch.no_grad():
        made = load_function(root, function)(module, *args, **kwargs)
    if made is not None and not isinstance(made, torch.nn.Module):
        raise StepError(f"{function} returns a {type(made).__name__}; expected None or a torch.nn.Module")
    return module if made is None else made


def _check_initialized(module: torch.nn.Module, name: str) -> None:
    for key, tensor in (*module.named_parameters(), *module.named_buffers()):
        if is_lazy(tensor):
            raise StepError(
                f"{name}: the parameter '{key}' has no shape until the module runs; expected the attribute 'prepare'"
                " with a function that runs it once"
            )
