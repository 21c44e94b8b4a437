"""The tested methods in eager PyTorch, which share their state as the program's methods do."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

import modelbuild_runtime
from modelbuild.step import Step, StepError
from modelbuild_rules.model.steps.eager.call import arguments
from modelbuild_rules.model.steps.eager.entry import first_line, seed_generators
from modelbuild_rules.model.steps.eager.module import make_module
from modelbuild_rules.model.steps.eager.result_metric import import_metrics
from modelbuild_rules.model.steps.eager.results import plain
from modelbuild_rules.model.steps.eager.state import PlainState
from modelbuild_rules.model.steps.eager.tensors import to_array, to_tensor
from modelbuild_rules.testing.steps.parity.budgets import median_ms
from modelbuild_rules.testing.steps.parity.cases import Planned
from modelbuild_rules.testing.steps.parity.programs import Arrays, Calls, Results, method_of, tensor_ports
from modelbuild_runtime.describe import MethodDescription

if TYPE_CHECKING:
    from modelbuild_rules.testing.documents import MethodParams


class Eager:
    """The modules of the tested methods."""

    def __init__(self, step: Step, program: modelbuild_runtime.Description) -> None:
        tested: Mapping[str, MethodParams] = step.params["methods"]
        import_metrics(step.root, (*step.params.get("metrics", ()), *step.params.get("accuracy", ())))
        # Programs are read last: the code of other models may import torchvision, as import_metrics() says.
        order = sorted(tested, key=lambda name: tested[name]["eager"]["entry"] is None)
        made = {name: _Method(step, tested[name], method_of(program, name)) for name in order}
        self._methods = {name: made[name] for name in tested}
        self._shared = _shared(list(self._methods.values()))
        self._seed = next(iter(self._methods.values())).params["eager"]["seed"]

    def run(self, plan: Sequence[Planned]) -> tuple[Calls, Results]:
        """Return the calls of a case, and the outputs of each. Each case starts with the initial buffers. Raises
        StepError for a model that fails."""
        for each in self._methods.values():
            each.reset()
        seed_generators(self._seed)
        newest: Arrays = {}
        calls: Calls = []
        results: Results = []
        states: dict[int, dict[str, torch.Tensor]] = {}
        for planned in plan:
            calls.append(planned.call(newest))
            method = self._methods[planned.method]
            module = method.params["module"]
            method.set_buffers(states.get(module, {}))
            try:
                results.append(method.call(calls[-1].inputs))
            except StepError:
                raise
            except Exception as error:  # exceptions of the model's own code
                problem = f"{type(error).__name__}: {first_line(error)}"
                raise StepError(f"{planned.place}: the model fails in eager PyTorch: {problem}") from error
            states[module] = states.get(module, {}) | method.buffers(self._shared[module])
            newest |= results[-1]
        return calls, results

    def latency_ms(self, planned: Planned) -> float:
        """Return the median milliseconds of a call with as many threads as the program has: one for each processor."""
        threads = torch.get_num_threads()
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        try:
            return median_ms(lambda: self.run([planned]))
        finally:
            torch.set_num_threads(threads)


class _Method:
    """A module whose call calls the method."""

    def __init__(self, step: Step, params: MethodParams, described: MethodDescription) -> None:
        self.params = params
        place, eager = params["inputs"], params["eager"]
        own = {name.removeprefix(place): files for name, files in step.inputs.items() if name.startswith(place)}
        self._module = make_module(step.root, eager, own)
        self.initial = {name: buffer.clone() for name, buffer in self._module.named_buffers()}
        self._state = PlainState(self._module)
        self._ports = tensor_ports(described)
        if len(self._ports) != len(eager["inputs"]):
            raise StepError(f"the model has {len(eager['inputs'])} inputs, the program {len(self._ports)}")
        self._names = [port.name for port in described.outputs]

    def reset(self) -> None:
        self._state.restore()
        self.set_buffers({name: initial.clone() for name, initial in self.initial.items()})

    def set_buffers(self, buffers: Mapping[str, torch.Tensor]) -> None:
        """Replace buffers with others."""
        for name, buffer in buffers.items():
            if name in self.initial:
                *owners, leaf = name.split(".")
                setattr(reduce(getattr, owners, self._module), leaf, buffer)

    def buffers(self, names: set[str]) -> dict[str, torch.Tensor]:
        return {name: buffer for name, buffer in self._module.named_buffers() if name in names}

    @torch.no_grad()
    def call(self, arrays: Arrays) -> Arrays:
        eager: Any = self.params["eager"]
        tensors = [to_tensor(arrays[port.name], port) for port in self._ports]
        args, kwargs = arguments(self._module, eager, tensors)
        values = pytree.tree_leaves(plain(self._module(*args, **kwargs)))
        if len(values) != len(self._names):
            raise StepError(f"the model returns {len(values)} outputs, the program {len(self._names)}")
        # Copied, because the next call may change memory that an output shares with a buffer.
        return {name: to_array(value).copy() for name, value in zip(self._names, values, strict=True)}


def _shared(methods: Sequence[_Method]) -> dict[int, set[str]]:
    """Return the names of the buffers that the methods of each module share: buffers with equal initial values. A
    constant of a quantized method may have the name of another constant in another method."""
    found: dict[int, set[str]] = {}
    for module in {each.params["module"] for each in methods}:
        own = [each.initial for each in methods if each.params["module"] == module]
        names = {name for each in own for name in each}
        found[module] = {name for name in names if _all_equal([each[name] for each in own if name in each])}
    return found


def _all_equal(tensors: Sequence[torch.Tensor]) -> bool:
    first, *others = tensors
    return all(each.dtype == first.dtype and torch.equal(each, first) for each in others)
