"""The cases of a test: the calls of each, with inputs from files, counts and generators, and fed inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

import modelbuild_runtime
from modelbuild.errors import did_you_mean
from modelbuild.step import Step, StepError
from modelbuild_rules.case_names import case_names, is_selected
from modelbuild_rules.testing.steps.parity.programs import Arrays, Call, method_of, tensor_ports
from modelbuild_rules.testing.steps.parity.random_inputs import count_from, draw
from modelbuild_runtime.checks import check_inputs
from modelbuild_runtime.describe import MethodDescription, Port
from modelbuild_runtime.dtypes import numpy_type
from modelbuild_runtime.errors import InputError
from modelbuild_runtime.inputs import read_inputs

if TYPE_CHECKING:
    from modelbuild_rules.testing.documents import CaseParams, CaseStepParams, FedParams


@dataclass(frozen=True)
class Planned:
    """A call before its case runs.

    place   its number and its case, for messages
    method  the method's name in the test
    inputs  the inputs that are known
    fed     the inputs that are outputs of earlier calls, in the form that the program takes
    """

    place: str
    method: str
    described: MethodDescription
    inputs: Arrays
    fed: Mapping[str, FedParams]

    def call(self, outputs: Mapping[str, np.ndarray]) -> Call:
        """Return the call. `outputs`: the newest outputs of earlier calls. Raises StepError for an output that does not
        fit."""
        ports = tensor_ports(self.described)
        found = self.inputs | {
            port.name: self._fed(port, self.fed[port.name], outputs) for port in ports if port.name in self.fed
        }
        try:
            check_inputs(self.described.inputs, found)
        except InputError as error:
            raise StepError(f"{self.place}: {error}") from error
        return Call(self.method, {port.name: found[port.name] for port in ports})

    def _fed(self, port: Port, fed: FedParams, outputs: Mapping[str, np.ndarray]) -> np.ndarray:
        if fed["output"] not in outputs:
            hint = did_you_mean(fed["output"], outputs) or f"; expected {', '.join(outputs)}"
            raise StepError(f"{self.place}: no call before it returns '{fed['output']}'{hint}")
        value = outputs[fed["output"]]
        if fed["argmax"]:
            if not value.ndim or not value.shape[-1]:
                raise StepError(f"{self.place}: '{fed['output']}' has the shape {list(value.shape)}; expected rows")
            value = value.argmax(-1).astype(numpy_type(port.dtype))
        fixed = [int(dim.max) for dim in port.shape]
        same_size = not any(dim.dynamic for dim in port.shape) and value.size == np.prod(fixed, dtype=int)
        return value.reshape(fixed) if same_size else value


Plan: TypeAlias = list[Planned]


def cases(step: Step, program: modelbuild_runtime.Description) -> Iterator[tuple[str, Plan]]:
    """Yield each case's name and its calls. Raises StepError for a file that does not match its input."""
    number = 0
    selected = step.params.get("filter", "")
    listed: Sequence[CaseParams] = step.params["cases"]
    for index, case in enumerate(listed):
        for place, name in enumerate(case_names(case["name"], case["drawn"] or 1)):
            if is_selected(name, selected):
                drawn = number + place if case["drawn"] else 0
                yield name, list(_plan(step, program, index, case, drawn))
        number += case["drawn"]


def _plan(
    step: Step, program: modelbuild_runtime.Description, index: int, case: CaseParams, drawn: int
) -> Iterator[Planned]:
    """Yield a case's calls. `drawn` is its number among its generator's cases."""
    several = sum(each["calls"] for each in case["steps"]) > 1
    call = 0
    for number, each in enumerate(case["steps"]):
        described = method_of(program, each["method"])
        files = {name: step.input(f"case.{index}.{number}.{name}") for name in each["files"]}
        made = _inputs(tensor_ports(described), each, files, drawn)
        for _ in range(each["calls"]):
            call += 1
            place = f"call {call} of case '{case['name']}'" if several else f"case '{case['name']}'"
            try:
                inputs = next(made)
            except (InputError, StepError) as error:
                raise StepError(f"{place}: {error}") from None
            yield Planned(place, each["method"], described, inputs, each["feed"])


def _inputs(ports: Sequence[Port], step: CaseStepParams, files: Mapping[str, Path], drawn: int) -> Iterator[Arrays]:
    """Yield the inputs of each call of a step, without fed inputs."""
    read = read_inputs(ports, files)
    generator = step["generator"]
    random = np.random.default_rng(generator["seed"] + drawn) if generator is not None else None
    others = [port for port in ports if all(port.name not in step[each] for each in ("files", "feed", "count"))]
    firsts = dict(step["count"])
    for _ in range(step["calls"]):
        found = dict(read)
        for port in ports:
            if port.name in firsts:
                found[port.name] = count_from(port, firsts[port.name], generator["sizes"] if generator else {})
                firsts[port.name] += found[port.name].size
        if generator is not None and random is not None:
            found |= draw(others, generator, random)
        yield {port.name: found[port.name] for port in ports if port.name in found}
