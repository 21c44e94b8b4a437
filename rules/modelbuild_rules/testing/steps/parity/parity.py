"""Cases, the model in eager PyTorch, and checks of outputs and metrics, for tests and the search for a wrong node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

import torch
from torch.utils import _pytree as pytree

import modelbuild_runtime
from modelbuild.errors import did_you_mean
from modelbuild.step import Step, StepError
from modelbuild_rules.model.steps.eager.call import arguments
from modelbuild_rules.model.steps.eager.entry import load_function, seed_generators
from modelbuild_rules.model.steps.eager.module import make_module
from modelbuild_rules.model.steps.eager.results import plain
from modelbuild_rules.testing.case_names import case_names, is_selected
from modelbuild_rules.testing.steps.parity.compare import compare, default_tolerance, top_agreement
from modelbuild_rules.testing.steps.parity.programs import Arrays, Calls, method_of
from modelbuild_rules.testing.steps.parity.random_inputs import draw
from modelbuild_runtime.bindings import to_array, to_tensor
from modelbuild_runtime.describe import Port
from modelbuild_runtime.errors import InputError
from modelbuild_runtime.inputs import read_inputs

if TYPE_CHECKING:
    from modelbuild_rules.testing.documents import MetricParams, ToleranceParams

Eager: TypeAlias = Callable[[Calls], Calls]


def tensor_inputs(step: Step, program: modelbuild_runtime.Program) -> list[Port]:
    """Return the tensor inputs of a program's tested method, in its order."""
    return [port for port in method_of(step, program).inputs if port.kind == "tensor"]


def cases(step: Step, program: modelbuild_runtime.Program) -> Iterator[tuple[str, Calls]]:
    """Yield each case's name and the inputs of its calls. Raises StepError for a file that does not match its input."""
    ports = tensor_inputs(step, program)
    number = 0
    selected = step.params.get("filter", "")
    for index, case in enumerate(step.params["cases"]):
        if case["generator"] is None:
            if not is_selected(case["name"], selected):
                continue
            try:
                yield (
                    case["name"],
                    [
                        read_inputs(ports, {name: step.input(f"case.{index}.{number}.{name}") for name in names})
                        for number, names in enumerate(case["calls"])
                    ],
                )
            except InputError as error:
                raise StepError(f"case '{case['name']}': {error}") from None
            continue
        for count in range(case["generator"]["count"]):
            name = case_names(case["name"], case["generator"]["count"])[count]
            if is_selected(name, selected):
                yield name, draw(ports, case["generator"], number)
            number += 1


def eager_model(step: Step, program: modelbuild_runtime.Program) -> Eager:
    """Return the model in eager PyTorch, as a function of the inputs of a case's calls that returns their outputs. Each
    case starts with the initial buffers."""
    params = step.params["eager"]
    module = make_module(step.root, params, step.inputs)
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    ports = tensor_inputs(step, program)
    if len(ports) != len(params["inputs"]):
        raise StepError(f"the model has {len(params['inputs'])} inputs, the program {len(ports)}")
    names = [port.name for port in method_of(step, program).outputs]

    @torch.no_grad()
    def call(arrays: Arrays) -> Arrays:
        args, kwargs = arguments(module, params, [to_tensor(arrays[port.name], port) for port in ports])
        values = pytree.tree_leaves(plain(module(*args, **kwargs)))
        if len(values) != len(names):
            raise StepError(f"the model returns {len(values)} outputs, the program {len(names)}")
        # Copies: the next call may change what an output shares with a buffer.
        return {name: to_array(value).copy() for name, value in zip(names, values, strict=True)}

    def run(calls: Calls) -> Calls:
        for name, initial in buffers.items():
            owner, _, leaf = name.rpartition(".")
            setattr(module.get_submodule(owner), leaf, initial.clone())
        seed_generators(params["seed"])
        return [call(arrays) for arrays in calls]

    return run


def output_types(step: Step, program: modelbuild_runtime.Program) -> dict[str, str]:
    """Return the dtype of each output by name, as "bfloat16"; '' for one that is no tensor."""
    return {port.name: port.dtype or "" for port in method_of(step, program).outputs}


def tolerance_of(step: Step, output: str, dtype: str) -> ToleranceParams:
    """Return the tolerance of an output with this dtype."""
    outputs: Mapping[str, ToleranceParams] = step.params["outputs"]
    given = outputs.get(output) or cast("ToleranceParams", step.params["tolerance"])
    if given["cosine"] is not None:
        return given
    default = default_tolerance(dtype)
    absolute, relative = (default if given[each] is None else given[each] for each in ("abs", "rel"))
    return {**given, "abs": absolute, "rel": relative}


def wrong_outputs(step: Step, found: Arrays, expected: Arrays, dtypes: Mapping[str, str]) -> dict[str, str]:
    """Return how outputs exceed their tolerance, by name. Raises StepError for a tolerance of an unknown output."""
    for name in step.params["outputs"]:
        if name not in expected:
            raise StepError(f"a tolerance for '{name}', which is not an output{did_you_mean(name, expected)}")
    problems = {}
    for output, wanted in expected.items():
        tolerance = tolerance_of(step, output, dtypes[output])
        problem = "" if tolerance["ignore"] else compare(found[output], wanted, tolerance)
        if problem:
            problems[output] = problem
    return problems


def wrong_metrics(step: Step, found: Arrays, expected: Arrays) -> list[str]:
    """Return a message for each metric that is out of bounds. Raises StepError for an unknown output, or no number."""
    problems = []
    metrics: Sequence[MetricParams] = step.params["metrics"]
    for metric in metrics:
        name, value = _metric(step, metric, found, expected)
        low, high = metric["min"], metric["max"]
        if not ((low is None or value >= low) and (high is None or value <= high)):
            bound = f"at least {low}" if high is None else f"at most {high}" if low is None else f"{low} to {high}"
            problems.append(f"metric {name} is {value:.6g}, expected {bound}")
    return problems


def _metric(step: Step, metric: MetricParams, found: Arrays, expected: Arrays) -> tuple[str, float]:
    """Return a metric's name and value."""
    if metric["top"]:
        output = metric["output"]
        if output not in expected:
            raise StepError(f"a metric of '{output}', which is not an output{did_you_mean(output, expected)}")
        return f"top {metric['top']} of '{output}'", top_agreement(found[output], expected[output], metric["top"])
    given = load_function(step.root, metric["entry"])(found, expected)
    try:
        return metric["entry"].partition(":")[2], float(given)
    except (TypeError, ValueError) as error:
        raise StepError(f"metric {metric['entry']} returns a {type(given).__name__}; expected a number") from error
