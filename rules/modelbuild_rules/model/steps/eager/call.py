"""The arguments of a module's forward, from its declared inputs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from modelbuild.step import StepError

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import Call, ModelParams


def arguments(
    module: torch.nn.Module, params: ModelParams, tensors: Sequence[torch.Tensor]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the keyword arguments of a module's forward for its inputs, in the order declared.

    Keyword arguments are in forward's order. Raises StepError if forward does not accept them, and if an input without
    a declared call would be passed as a parameter with another input's name.
    """
    names = [each["name"] for each in params["inputs"]]
    by_name = dict(zip(names, tensors, strict=True))
    call = params["call"]
    if call is None:
        args, kwargs = tuple(tensors), {}
    else:
        args = tuple(_value(each, by_name) for each in call["args"])
        kwargs = {name: _value(each, by_name) for name, each in call["kwargs"].items()}
    try:
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
    except ValueError:
        return args, kwargs  # Python does not know its signature
    except TypeError as error:
        called = f"{_method(params)}, called with the inputs {', '.join(names)}"
        raise StepError(f"{called}: {error}{_suggestion(module, names, call)}") from error
    if call is None:
        _check_names(module, params, names)
    return bound.args, bound.kwargs


def _method(params: ModelParams) -> str:
    return f"{params['method']} of {params['entry'] or 'the model'}"


def _value(written: Any, inputs: Mapping[str, torch.Tensor]) -> Any:
    ((kind, value),) = written.items()
    match kind:
        case "input":
            return inputs[value]
        case "tuple":
            return tuple(_value(each, inputs) for each in value)
        case "list":
            return [_value(each, inputs) for each in value]
        case "dict":
            return {key: _value(each, inputs) for key, each in value}
    return value


def _check_names(module: torch.nn.Module, params: ModelParams, names: Sequence[str]) -> None:
    """Raise StepError if an input is passed by position to a parameter, but has the name of another parameter."""
    parameters = list(inspect.signature(module.forward).parameters)
    for name, parameter in zip(names, parameters, strict=False):
        if name != parameter and name in parameters:
            raise StepError(
                f"{_method(params)} takes '{parameter}' where the input '{name}' is passed{_suggestion(module, names)}"
            )


def _suggestion(module: torch.nn.Module, names: Sequence[str], given: Call | None = None) -> str:
    """Return the attribute `call` with inputs passed by name, if forward has parameters with all their names; '' if the
    inputs are passed so."""
    parameters = inspect.signature(module.forward).parameters
    if not all(name in parameters for name in names):
        return ""
    by_position = [name for name, each in parameters.items() if each.kind == inspect.Parameter.POSITIONAL_OR_KEYWORD]
    first = next((i for i, name in enumerate(names) if by_position[i : i + 1] != [name]), len(names))
    positional, rest = [{"input": name} for name in names[:first]], {name: {"input": name} for name in names[first:]}
    default: Call = {"args": [{"input": name} for name in names], "kwargs": {}}
    if (given or default) == {"args": positional, "kwargs": rest}:
        return ""
    call = ", ".join(name if i < first else f"{name}={name}" for i, name in enumerate(names))
    return f'; expected call = "{call}"'
