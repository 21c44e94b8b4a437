"""A program in floating point with observers, as torchao's PT2E inserts them.

The calibration and the conversion insert the same observers, so that the conversion reads the calibration's ranges by
the observers' names. The conversion computes ranges of weights from the weights.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.export import ExportedProgram

from modelbuild.errors import did_you_mean
from modelbuild.step import Step, StepError
from modelbuild_rules.backend_api.steps.quantizing import allowed_nodes, quantizing
from modelbuild_rules.model.steps.exported.program import load_program
from modelbuild_rules.quantization.steps.stored import split_shared

if TYPE_CHECKING:
    from modelbuild_rules.quantization.documents import Modules, UsedQuantizer


@dataclass(frozen=True)
class Unlifted:
    """A program as a module that runs.

    module   its graph has a get_attr node for each parameter and buffer
    program  the exported program
    mutable  the initial values of buffers that a call changes, by name
    copies   parameters by the names of their copies for other layers
    """

    module: torch.fx.GraphModule
    program: ExportedProgram
    mutable: Mapping[str, torch.Tensor]
    copies: Mapping[str, str]

    def reset(self, module: torch.nn.Module) -> None:
        """Restore the initial values of buffers that a call changes, in a module made of this module."""
        for name, initial in self.mutable.items():
            module.get_buffer(name).copy_(initial)


def unlifted(step: Step, quantizers: Sequence[UsedQuantizer]) -> Unlifted:
    """Return the program of the inputs `program`, `weights` and `modules`, with the module of each node, as quantizers
    rewrite it before other quantizers insert observers."""
    plug_ins = [quantizing(used) for used in quantizers]
    program = load_program(step.input("program"), step.input("weights"))
    modules: Modules = json.loads(step.input("modules").read_bytes())
    module = program.module(check_guards=False)
    assert isinstance(module, torch.fx.GraphModule)
    for node in module.graph.nodes:
        if node.op == "call_function" and node.name in modules:
            path = modules[node.name]
            node.meta["nn_module_stack"] = {path: (path, "torch.nn.Module")}
    _check_modules(quantizers, set(modules.values()))
    mutable = {name: module.get_buffer(name).clone() for name in _mutable(module)}
    given = Unlifted(module, program, mutable, split_shared(module))
    for used, own in zip(quantizers, plug_ins, strict=True):
        own.rewrite(used["attributes"], module, mutable, allowed_nodes(used["attributes"], own))
    return given


def _mutable(module: torch.fx.GraphModule) -> set[str]:
    """Return the buffers that an operator writes to, itself or a view of it."""
    buffers = {name for name, _ in module.named_buffers(remove_duplicate=False)}
    found = set()
    for node in module.graph.nodes:
        arguments = getattr(getattr(node.target, "_schema", None), "arguments", ())
        for argument, given in zip(arguments, node.args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write and isinstance(given, torch.fx.Node):
                while given.op == "call_function" and given.all_input_nodes:
                    given = given.all_input_nodes[0]
                if given.op == "get_attr" and given.target in buffers:
                    found.add(str(given.target))
    return found


def _check_modules(quantizers: Sequence[UsedQuantizer], found: Iterable[str]) -> None:
    """Raise StepError for a submodule that the model does not have."""
    known = {
        ".".join(parts[:count]) for name in found for parts in [name.split(".")] for count in range(len(parts) + 1)
    }
    for used in quantizers:
        for attribute in ("modules", "exclude"):
            for name in used["attributes"].get(attribute, ()):
                if name not in known:
                    raise StepError(f"{attribute}: the model has no submodule '{name}'{did_you_mean(name, known)}")


def prepare(given: Unlifted, quantizers: Sequence[UsedQuantizer]) -> torch.fx.GraphModule | None:
    """Return the module with observers; None if no quantizer of the recipe inserts any."""
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e
    from torchao.quantization.pt2e.quantizer import ComposableQuantizer

    made = []
    for used in quantizers:
        own = quantizing(used)
        made.append(own.quantizer(used["attributes"], allowed_nodes(used["attributes"], own)))
    found = [each for each in made if each is not None]
    if not found:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepared = prepare_pt2e(given.module, found[0] if len(found) == 1 else ComposableQuantizer(found))
    assert isinstance(prepared, torch.fx.GraphModule)
    return prepared


def observers(prepared: torch.fx.GraphModule, mutable: Iterable[str]) -> Iterator[tuple[str, Any, bool]]:
    """Yield each observer with its name, and whether it observes an activation: a tensor that depends on an input or on
    a buffer that changes."""
    depends = set()
    for node in prepared.graph.nodes:
        changes = node.op == "placeholder" or (node.op == "get_attr" and node.target in mutable)
        if changes or any(each in depends for each in node.all_input_nodes):
            depends.add(node)
        if node.op == "call_module":
            yield str(node.target), prepared.get_submodule(node.target), node in depends


def save_ranges(prepared: torch.fx.GraphModule, mutable: Iterable[str], path: Path) -> None:
    """Write the state of the observers of activations."""
    from safetensors.torch import save_file

    found = {
        f"{name}.{key}": value.detach().clone().contiguous()
        for name, observer, active in observers(prepared, mutable)
        if active
        for key, value in observer.state_dict().items()
    }
    save_file(found, path)


def load_ranges(prepared: torch.fx.GraphModule, mutable: Iterable[str], path: Path) -> None:
    """Read the state of the observers of activations."""
    from safetensors.torch import load_file

    found = load_file(path)
    for name, observer, active in observers(prepared, mutable):
        state = {key.removeprefix(f"{name}."): each for key, each in found.items() if key.startswith(f"{name}.")}
        if active and state:
            observer.load_state_dict(state)
