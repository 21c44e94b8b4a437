"""Cases, the model in eager PyTorch, and checks of outputs and metrics, for tests and the search for a wrong node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
import torch
from torch.utils import _pytree as pytree

import modelbuild_runtime
from modelbuild.errors import did_you_mean
from modelbuild.step import Step, StepError
from modelbuild_rules.model.steps.eager.call import arguments
from modelbuild_rules.model.steps.eager.entry import load_function, seed_generators
from modelbuild_rules.model.steps.eager.module import make_module
from modelbuild_rules.model.steps.eager.results import plain
from modelbuild_rules.testing.steps.parity.compare import compare
from modelbuild_rules.testing.steps.parity.programs import Arrays
from modelbuild_rules.testing.steps.parity.random_inputs import draw
from modelbuild_runtime.bindings import to_array, to_tensor
from modelbuild_runtime.describe import Port
from modelbuild_runtime.errors import InputError
from modelbuild_runtime.inputs import read_inputs

if TYPE_CHECKING:
    from modelbuild_rules.testing.documents import ToleranceParams

Eager: TypeAlias = Callable[[Mapping[str, np.ndarray]], Arrays]


def tensor_inputs(program: modelbuild_runtime.Program) -> list[Port]:
    """Return a program's tensor inputs, in its order."""
    return [port for port in program.describe().method("forward").inputs if port.kind == "tensor"]


def cases(step: Step, program: modelbuild_runtime.Program) -> Iterator[tuple[str, Arrays]]:
    """Yield each case's name and inputs. Raises StepError for a file that does not match its input."""
    ports = tensor_inputs(program)
    number = 0
    for index, case in enumerate(step.params["cases"]):
        if case["generator"] is None:
            files = {name: step.input(f"case.{index}.{name}") for name in case["inputs"]}
            try:
                yield case["name"], read_inputs(ports, files)
            except InputError as error:
                raise StepError(f"case '{case['name']}': {error}") from None
            continue
        for count in range(case["generator"]["count"]):
            several = case["generator"]["count"] > 1
            yield f"{case['name']}[{count}]" if several else case["name"], draw(ports, case["generator"], number)
            number += 1


def eager_model(step: Step, program: modelbuild_runtime.Program) -> Eager:
    """Return the model in eager PyTorch, as a function of arrays by name. Each call starts with the initial buffers."""
    params = step.params["eager"]
    module = make_module(step.root, params, step.inputs)
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    ports = tensor_inputs(program)
    if len(ports) != len(params["inputs"]):
        raise StepError(f"the model has {len(params['inputs'])} inputs, the program {len(ports)}")
    names = [port.name for port in program.describe().method("forward").outputs]

    @torch.no_grad()
    def call(arrays: Mapping[str, np.ndarray]) -> Arrays:
        for name, initial in buffers.items():
            owner, _, leaf = name.rpartition(".")
            setattr(module.get_submodule(owner), leaf, initial.clone())
        seed_generators(params["seed"])
        args, kwargs = arguments(module, params, [to_tensor(arrays[port.name], port) for port in ports])
        values = pytree.tree_leaves(plain(module(*args, **kwargs)))
        if len(values) != len(names):
            raise StepError(f"the model returns {len(values)} outputs, the program {len(names)}")
        return {name: to_array(value) for name, value in zip(names, values, strict=True)}

    return call


def tolerance_of(step: Step, output: str) -> ToleranceParams:
    """Return the tolerance of an output."""
    outputs: Mapping[str, ToleranceParams] = step.params["outputs"]
    return outputs.get(output) or cast("ToleranceParams", step.params["tolerance"])


def wrong_outputs(step: Step, found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Return how outputs exceed their tolerance, by name. Raises StepError for a tolerance of an unknown output."""
    for name in step.params["outputs"]:
        if name not in expected:
            raise StepError(f"a tolerance for '{name}', which is not an output{did_you_mean(name, expected)}")
    problems = {}
    for output, wanted in expected.items():
        tolerance = tolerance_of(step, output)
        problem = "" if tolerance["ignore"] else compare(found[output], wanted, tolerance)
        if problem:
            problems[output] = problem
    return problems


def wrong_metrics(step: Step, found: Arrays, expected: Arrays) -> list[str]:
    """Return a message for each of the user's metrics that is out of bounds."""
    problems = []
    for metric in step.params["metrics"]:
        given = load_function(step.root, metric["entry"])(found, expected)
        try:
            value = float(given)
        except (TypeError, ValueError) as error:
            raise StepError(f"metric {metric['entry']} returns a {type(given).__name__}; expected a number") from error
        low, high = metric["min"], metric["max"]
        if not ((low is None or value >= low) and (high is None or value <= high)):
            bound = f"at least {low}" if high is None else f"at most {high}" if low is None else f"{low} to {high}"
            problems.append(f"metric {metric['entry'].partition(':')[2]} is {value:.6g}, expected {bound}")
    return problems
