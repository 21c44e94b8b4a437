"""Export a PyTorch module. Only the debug output contains file names or line numbers; none contains Python code.

Inputs   srcs, data         at their workspace paths
         weights.<prefix>   state dicts; example.<index>   example inputs from files
Params   ModelParams of model/documents.py
Outputs  program, weights   trees, as model/steps/exported/program.py writes them
         signature          JSON: Signature of model/documents.py
         examples           safetensors: the example inputs by position, "0", "1", ...
         debug              JSON: Debug of model/documents.py. No later step reads it
"""

from __future__ import annotations

import inspect
import json
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from safetensors.torch import save_file
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from modelbuild.step import Step, StepError
from modelbuild_rules.model.steps.eager.entry import (
    first_line,
    load_model,
    load_weights,
    seed_generators,
    set_inference_mode,
)
from modelbuild_rules.model.steps.eager.example_inputs import example_inputs
from modelbuild_rules.model.steps.exported.program import save_program
from modelbuild_rules.model.steps.exported.signature import signature

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import Debug, ModelParams, SourcePlace


def run(step: Step) -> None:
    params = cast("ModelParams", step.params)
    seed_generators(params["seed"])
    module = load_model(step.root, params["entry"], params["kwargs"])
    files = {prefix: step.input(f"weights.{prefix}") for prefix in params["weights"]}
    load_weights(module, files, params["allow_missing"])
    set_inference_mode(module)
    examples = example_inputs(params["inputs"], params["dynamic"], params["seed"], step.inputs)
    _check_call(module, examples, params)
    program = _export(module, examples, params, step.root)
    if all(output is None for output in program.graph_signature.user_outputs):
        raise StepError(f"forward of {params['entry']} returns nothing; expected one or more tensors")
    try:
        save_program(program, step.outputs["program"], step.outputs["weights"])
    except ValueError as error:
        raise StepError(f"{params['entry']}: {error}") from error
    _write(step.outputs["signature"], signature(program, params, examples))
    save_file({str(i): each.contiguous() for i, each in enumerate(examples)}, step.outputs["examples"])
    _write(step.outputs["debug"], _debug(program, step.root))


def _check_call(module: torch.nn.Module, examples: tuple[torch.Tensor, ...], params: ModelParams) -> None:
    try:
        inspect.signature(module.forward).bind(*examples)
    except TypeError as error:
        names = ", ".join(each["name"] for each in params["inputs"])
        raise StepError(f"forward of {params['entry']}, called with the inputs {names}: {error}") from error


def _export(
    module: torch.nn.Module, examples: tuple[torch.Tensor, ...], params: ModelParams, root: Path
) -> torch.export.ExportedProgram:
    """Return the exported program. Raises StepError if torch.export refuses the module; exceptions of the module's own
    code are not caught."""
    sizes = {name: torch.export.Dim(name, min=d["min"], max=d["max"]) for name, d in params["dynamic"].items()}
    dynamic = tuple(
        {axis: sizes[size] for axis, size in enumerate(each["shape"] or ()) if isinstance(size, str)}
        for each in params["inputs"]
    )
    try:
        with torch.no_grad():
            return torch.export.export(module, examples, dynamic_shapes=dynamic if sizes else None, strict=False)
    except GuardOnDataDependentSymNode as error:
        raise StepError(
            f"{_place(error, root, params['entry'])} depends on values that are known only when the program runs"
            f" ({error.cond}); expected torch.where, torch.cond, or sizes from shapes"
        ) from error
    except torch._dynamo.exc.UserError as error:
        _, _, fixes = str(error).partition("Suggested fixes:\n")
        if "Constraints violated" not in str(error) or not fixes:
            raise StepError(f"torch.export cannot export {params['entry']}: {first_line(error)}") from error
        wanted = ", ".join(line.strip() for line in fixes.partition("\n\n")[0].splitlines())
        raise StepError(
            f"{params['entry']} does not accept every size that 'dynamic' allows; torch.export suggests {wanted}"
        ) from error
    except Exception as error:
        if _frames(error, root):
            raise
        raise StepError(f"torch.export cannot export {params['entry']}: {first_line(error)}") from error


def _frames(error: BaseException, root: Path) -> list[traceback.FrameSummary]:
    """Return the traceback's frames in the user's source, innermost last."""
    return [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(root)]


def _place(error: BaseException, root: Path, entry: str) -> str:
    frames = _frames(error, root)
    if not frames:
        return f"code in {entry}"
    return f"{Path(frames[-1].filename).relative_to(root)}:{frames[-1].lineno}: '{frames[-1].line}'"


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
