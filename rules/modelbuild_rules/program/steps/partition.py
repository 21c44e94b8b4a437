"""Lower an exported program with the backends of a stack; write the partitions that they take, without compiling them.

Inputs   program, weights   trees, as model/steps/exported/program.py writes them. Without weights, the program is
                            lowered without their values, and the only output is `structure`
         calls              tree: calls that the module accepts (model/steps/calls/recorded.py), to check a
                            backend's compiler on the first call
         eager              Python files that register the operators of kernel libraries; optional
Params   backends           [OfferedBackend], in the order in which they are offered nodes
         kernels            [GivenLibrary] of kernels/documents.py; optional
         external_weights   true if the program's own constants are outside the .pte
         versions           names of the packages whose versions are in the program's manifest; optional
         device_io          true if inputs and outputs of partitions on a GPU stay in device memory; optional
         compared           without weights: true if the step weights.py compares the program with calls; optional
         shares_state       true if buffers that the method changes get a separate arena, under their names
Outputs  residual           tree: program.pte, whose delegates are placeholders, constants outside it,
                            versions.json, and kernels.json if it needs kernel libraries: [ManifestKernels]
         partitions         tree: p0/, p1/, ... each a separate program (program/ with partition.json, weights/)
         plan               JSON: [PlannedPartition]
         report             JSON: [NodeDelegation], in the program's order; program/documents.py has the documents.
         notes              text: facts for the program's author, one line each
         state              JSON: MethodState, with `shares_state`
         structure          tree: the outputs above, with the names of weights instead of values in partitions, and
                            recipes.json (RecipeFile); lowered/, the lowered program as one graph, if it is compared; or
                            needs_values, the reason why it has none
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from executorch.exir import ExecutorchBackendConfig
from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer

from modelbuild.step import Step
from modelbuild_rules.backend_api.steps import executorch_private
from modelbuild_rules.backend_api.steps.composite_operators import composite_operators_found_once
from modelbuild_rules.backend_api.steps.named_data import NamedBytes, write_named
from modelbuild_rules.model.steps.calls.recorded import first_inputs
from modelbuild_rules.model.steps.exported.program import load_program, load_structure, save_program
from modelbuild_rules.model.steps.exported.sources import ValuesNeeded, known_sources
from modelbuild_rules.operators.steps import custom
from modelbuild_rules.program.steps.lowering.agreement import check_agreement, input_types
from modelbuild_rules.program.steps.lowering.inlined import inlined
from modelbuild_rules.program.steps.lowering.memory_plan import arena_config, device_io_config
from modelbuild_rules.program.steps.lowering.notes import notes
from modelbuild_rules.program.steps.lowering.pipeline import StackLowering
from modelbuild_rules.program.steps.lowering.portable import needed_libraries
from modelbuild_rules.program.steps.lowering.stack import Stack
from modelbuild_rules.program.steps.values import write_places

if TYPE_CHECKING:
    from modelbuild_rules.backend_api.documents import TensorLayout

RESIDUAL, PARTITIONS, LOWERED, NEEDS_VALUES = "residual", "partitions", "lowered", "needs_values"
"""Names in the output `structure`."""

_TAG = "weights"
"""The name of executorch's file of constants outside the program."""


@composite_operators_found_once()
def run(step: Step) -> None:
    if "weights" not in step.inputs:
        _run_on_structure(step)
        return
    program, lowering = begin(step, step.outputs["partitions"])
    lowering.lower()
    if "calls" in step.inputs and (inputs := first_inputs(step.input("calls"), input_types(program))) is not None:
        step.progress("comparing with the model")
        check_agreement(program, lowering.edge.exported_program(), lowering.partitions.backend, inputs)
    _complete(step, program, lowering, step.outputs)


def begin(step: Step, folder: Path) -> tuple[Any, StackLowering]:
    """Read the program and the stack of a step. Return the program, and its lowering with partitions in `folder`."""
    executorch_private.require()
    step.progress("reading the program")
    custom.load(step.root, step.params.get("kernels", ()))
    stack = Stack.load(step.params["backends"])
    program = load_program(step.input("program"), step.input("weights"))
    return program, StackLowering(program, stack, folder, step.progress)


def _run_on_structure(step: Step) -> None:
    """Lower a program without the values of its weights. If this fails for any reason, write the reason's kind: the
    step weights.py then lowers the program with values, or fails with the reason's text."""
    folder = step.outputs["structure"]
    try:
        _lower_structure(step, folder)
    except (MemoryError, OSError):
        raise
    except Exception as error:
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        (folder / NEEDS_VALUES).write_text(str(error) if isinstance(error, ValuesNeeded) else type(error).__name__)


def _lower_structure(step: Step, folder: Path) -> None:
    executorch_private.require()
    step.progress("reading the program")
    custom.load(step.root, step.params.get("kernels", ()))
    stack = Stack.load(step.params["backends"])
    program, sources = load_structure(step.input("program"))
    for name in (RESIDUAL, PARTITIONS, *((LOWERED,) * bool(step.params.get("compared")))):
        (folder / name).mkdir()
    lowering = StackLowering(program, stack, folder / PARTITIONS, step.progress)
    with known_sources(sources):
        lowering.lower()
        if step.params.get("compared"):
            save_program(inlined(lowering.edge.exported_program()), folder / LOWERED, folder / LOWERED)
        names = (RESIDUAL, PARTITIONS, "plan", "report", "notes", "state")
        _complete(step, program, lowering, {name: folder / name for name in names})
        write_places(folder, RESIDUAL, sources)


def _complete(step: Step, program: Any, lowering: StackLowering, outputs: Mapping[str, Path]) -> None:
    """Complete a lowering and write its outputs."""
    facts = lowering.complete()
    lowered = lowering.to_executorch(_config(step, lowering, outputs), facts)
    _write_residual(step, lowered, outputs["residual"])
    _write_json(outputs["plan"], lowering.partitions.plan())
    _write_json(outputs["report"], [fact.as_json() for fact in facts])
    found = notes(program, facts, [each.partitioning for each in lowering.stack.backends])
    outputs["notes"].write_text("".join(f"{note}\n" for note in found))


def _config(step: Step, lowering: StackLowering, outputs: Mapping[str, Path]) -> ExecutorchBackendConfig:
    """Return executorch's options, and write the state of a method that shares it."""
    edge = lowering.edge.exported_program()
    device_io = bool(step.params.get("device_io"))
    outside = bool(step.params["external_weights"])
    config: dict[str, Any] = {"external_constants": (lambda node: _TAG) if outside else False}
    if device_io:
        config |= device_io_config()
    if step.params.get("shares_state"):
        config |= arena_config(edge, device_io)
        _write_json(outputs["state"], lowering.state.as_json(edge, lowering.partitions.common()))
    return ExecutorchBackendConfig(**config)


def _write_residual(step: Step, lowered: Any, folder: Path) -> None:
    with (folder / "program.pte").open("wb") as file:
        lowered.write_to_file(file)
    (folder / "constants").mkdir()
    _write_constants(lowered, folder / "constants")
    _write_json(folder / "versions.json", {name: metadata.version(name) for name in step.params.get("versions", ())})
    if libraries := needed_libraries(lowered):
        _write_json(folder / "kernels.json", libraries)


def _write_constants(lowered: Any, folder: Path) -> None:
    """Write a lowered program's external constants as named data, under their qualified names."""
    lowered.write_tensor_data_to_file(str(folder))
    entries: list[NamedBytes] = []
    path = folder / f"{_TAG}.ptd"
    if path.exists():
        payload = FlatTensorSerializer().deserialize(path.read_bytes())
        path.unlink()
        for key, entry in payload.named_data.items():
            layout = entry.tensor_layout
            described: TensorLayout | None = (
                None
                if layout is None
                else {
                    "scalar_type": int(layout.scalar_type),
                    "sizes": list(layout.sizes),
                    "dim_order": list(layout.dim_order),
                }
            )
            entries.append(NamedBytes(key, payload.buffers[entry.buffer_index], 1, True, described))
    write_named(folder, entries)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")
