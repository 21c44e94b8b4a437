"""Export a PyTorch module. Only the debug output contains file names or line numbers; none contains Python code.

Inputs   srcs, data         at their workspace paths
         archive            optional: an exported program or TorchScript, instead of an entry
         weights.<prefix>   state dicts; example.<index>   example inputs from files
Params   ModelParams of model/documents.py
Outputs  program, weights   trees, as model/steps/exported/program.py writes them
         signature          JSON: Signature of model/documents.py
         examples           safetensors: the example inputs by position, "0", "1", ...
         calls              tree: calls with the module's outputs, as model/steps/calls/recorded.py writes them
         debug              JSON: Debug of model/documents.py. No later step reads it
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from safetensors.torch import save_file
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from modelbuild.step import Step, StepError
from modelbuild_rules.model.steps.calls.drawn import drawn_calls
from modelbuild_rules.model.steps.calls.exported import check_exported, repeats, write_calls
from modelbuild_rules.model.steps.calls.recorded import Recording, record
from modelbuild_rules.model.steps.eager.archive import from_torchscript
from modelbuild_rules.model.steps.eager.call import arguments
from modelbuild_rules.model.steps.eager.entry import first_line, seed_generators
from modelbuild_rules.model.steps.eager.example_inputs import example_inputs
from modelbuild_rules.model.steps.eager.module import make_module, model_name
from modelbuild_rules.model.steps.eager.results import named_leaves, plain
from modelbuild_rules.model.steps.eager.state import PlainState, reads_state
from modelbuild_rules.model.steps.exported.changes import changed_tensor, without_vmap
from modelbuild_rules.model.steps.exported.composite_shapes import shapes_from_inputs
from modelbuild_rules.model.steps.exported.dimensions import dynamic_shapes
from modelbuild_rules.model.steps.exported.failure import refusal
from modelbuild_rules.model.steps.exported.normal_form import normalize
from modelbuild_rules.model.steps.exported.numbers import as_constants, constant_numbers
from modelbuild_rules.model.steps.exported.program import save_program
from modelbuild_rules.model.steps.exported.signature import signature
from modelbuild_rules.model.steps.exported.symbols import SYMBOLIC
from modelbuild_rules.model.steps.exported.values import write_operator
from modelbuild_rules.model.steps.traceable.replacements import changed, replaced
from modelbuild_rules.operators.steps import factorization_shapes

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import Debug, ModelParams, SourcePlace


def run(step: Step) -> None:
    params = cast("ModelParams", step.params)
    name = model_name(params, step.inputs)
    step.progress("loading the model")
    export_module(step, make_module(step.root, params, step.inputs), params, name)


def export_module(step: Step, module: torch.nn.Module, params: ModelParams, name: str, runs: bool = True) -> None:
    """Export a module and write the step's outputs. `name` is the model's name, for messages; `runs` is false for a
    module that cannot run here."""
    examples = example_inputs(params["inputs"], params["dynamic"], params["seed"], step.inputs)
    step.progress("running the module")
    recording = _recorded(module, params, examples) if runs else Recording()
    step.progress("exporting")
    program = _export(module, examples, params, name, step.root)
    if recording.failure is not None and not recording.calls:
        error = recording.failure
        problem = f"{type(error).__name__}: {first_line(error)}"
        raise StepError(f"{params['method']} of {name} fails on its example inputs in eager mode: {problem}") from error
    if all(output is None for output in program.graph_signature.user_outputs):
        raise StepError(f"{params['method']} of {name} returns nothing; expected one or more tensors")
    debug = _debug(program, step.root)
    _check_operators(program, debug, name)
    if found := changed_tensor(program, [each["name"] for each in params["inputs"]]):
        raise StepError(f"{_place(found[0], debug, name)} {found[1]}")
    described = signature(program, params, examples)
    step.progress("comparing with the module")
    try:
        check_exported(program, recording, f"the exported program of {name}")
    except StepError as error:
        if repeats(program, recording, _recorded(module, params, examples)):
            raise
        raise StepError(
            f"{params['method']} of {name} returns other values when it is called again with the same inputs; expected"
            " results that the inputs decide"
        ) from error
    step.progress("writing the program")
    try:
        save_program(program, step.outputs["program"], step.outputs["weights"], values=True)
    except ValueError as error:
        raise StepError(f"{name}: {error}") from error
    _write(step.outputs["signature"], described)
    save_file({str(i): each.contiguous() for i, each in enumerate(examples)}, step.outputs["examples"])
    write_calls(program, recording, step.outputs["calls"])
    _write(step.outputs["debug"], debug)


def _recorded(module: torch.nn.Module, params: ModelParams, examples: tuple[torch.Tensor, ...]) -> Recording:
    """Return calls of the module in eager mode, each with the same seed: numbers that forward draws with numpy or
    Python are constants of the program."""

    def call(inputs: Sequence[torch.Tensor]) -> Any:
        args, kwargs = arguments(module, params, inputs)
        seed_generators(params["seed"])
        return module(*args, **kwargs)

    state = PlainState(module)
    try:
        return record(module, call, drawn_calls(params["inputs"], params["dynamic"], params["seed"], examples))
    finally:
        state.restore()


def _export(
    module: torch.nn.Module, examples: tuple[torch.Tensor, ...], params: ModelParams, name: str, root: Path
) -> torch.export.ExportedProgram:
    """Return the exported program, whose arguments are the inputs. Raises StepError if torch.export refuses the module;
    exceptions of the module's own code are not caught."""
    args, kwargs = arguments(module, params, examples)
    factorization_shapes.register()
    seed_generators(params["seed"])  # forward may draw constants
    if isinstance(module, torch.jit.ScriptModule):
        module = from_torchscript(module, args, kwargs, name)
    shapes = dynamic_shapes(params["inputs"], examples, params["dynamic"])
    state = PlainState(module)
    changed_state: list[str] = []

    def returned(module: torch.nn.Module, args: Any, result: Any) -> Any:
        changed_state.extend(state.changed())
        return _checked(plain(result), f"{params['method']} of {name}")

    hook = module.register_forward_hook(returned)
    try:
        with torch.no_grad(), shapes_from_inputs(), replaced():
            program = _exported(module, args, kwargs, shapes)
    except StepError:
        raise
    except Exception as error:
        refused = refusal(error, name, root)
        if refused is None:
            raise
        raise StepError("; ".join([str(refused), *changed()])) from error
    finally:
        hook.remove()
        state.restore()
    if changed_state and _reads_state(module, state, params, examples):
        raise StepError(
            f"{params['method']} of {name} changes the attribute '{changed_state[0]}', on which its next call depends;"
            " expected a buffer that it changes: self.register_buffer"
        )
    normalize(program, args, kwargs, examples)
    return program


def _reads_state(
    module: torch.nn.Module, state: PlainState, params: ModelParams, examples: tuple[torch.Tensor, ...]
) -> bool:
    """Return whether a call depends on attributes that the call before it changed."""

    def call(inputs: tuple[torch.Tensor, ...]) -> Any:
        args, kwargs = arguments(module, params, [each.clone() for each in inputs])
        seed_generators(params["seed"])
        return module(*args, **kwargs)

    others = tuple(each.flip(0) if each.dim() else each for each in examples)
    return reads_state(module, state, call, examples, others)


def _exported(module: torch.nn.Module, args: Any, kwargs: Any, shapes: Any) -> torch.export.ExportedProgram:
    """Return the exported program. If it would depend on numbers in buffers, the numbers become constants."""
    export = partial(torch.export.export, module, args, kwargs, dynamic_shapes=shapes, strict=False)
    try:
        return without_vmap(export())
    except GuardOnDataDependentSymNode:
        numbers = constant_numbers(module, args, kwargs)
        if not numbers:
            raise
    with as_constants(numbers):
        return without_vmap(export())


def _checked(result: Any, method: str) -> Any:
    """Return a result in plain containers. Raises StepError if it contains an object that no program can return."""
    for name, value in named_leaves(result):
        if not isinstance(value, (torch.Tensor, *SYMBOLIC, bool, int, float, type(None))):
            raise StepError(
                f"{method} returns a {type(value).__name__} in '{name}'; expected tensors, numbers, and"
                " containers that torch.utils._pytree.register_pytree_node knows"
            )
    return result


def _check_operators(program: torch.export.ExportedProgram, debug: Debug, name: str) -> None:
    """Raise StepError with the line of the user's source for an operator that a program can't contain."""
    for node in program.graph.nodes:
        if node.op == "call_function":
            try:
                write_operator(node.target)
            except ValueError as error:
                raise StepError(f"{_place(node, debug, name)} {error}") from error


def _place(node: torch.fx.Node, debug: Debug, name: str) -> str:
    return f"{debug.get(node.name, {}).get('source', name)}:"


def _debug(program: Any, root: Path) -> Debug:
    """Return the innermost module and the innermost line of the user's source, by node."""
    found: dict[str, SourcePlace] = {}
    for node in program.graph.nodes:
        # Nodes that torch.export itself adds, such as input sizes, belong to a module that it invents.
        stack = (node.meta.get("nn_module_stack") or {}).items()
        modules = [module for name, module in stack if name != "_empty_nn_module_stack_from_metadata_hook"]
        lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
        places = [line.split('"', 2) for line in lines if line.startswith(f'File "{root}/')]
        fact: SourcePlace = {}
        if modules:
            fact["module"] = str(modules[-1][0])
        if places:
            number = places[-1][2].removeprefix(", line ").partition(",")[0]
            fact["source"] = f"{Path(places[-1][1]).relative_to(root)}:{number}"
        if fact and node.op == "call_function":
            found[node.name] = fact
    return found


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")
