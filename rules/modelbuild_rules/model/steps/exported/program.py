"""Read and write exported programs as canonical files without pickles; steps pass programs to each other in this form.

A program is two folders. The structure folder contains `program.json`: the graph with each node's operator, arguments
and result (dtype, shape, strides), the signature, the symbols with their ranges, and the table of tensors. The weights
folder contains one file of raw bytes per tensor, named 0, 1, ... in the order of the signature. Source lines, stack
traces, module paths and example inputs are omitted, so programs that differ only in them have equal bytes.

save_program(ep, structure_dir, weights_dir)        both folders must exist (they may be the same)
    load_program(structure_dir, weights_dir)            weights are mapped, and loaded on first access
    load_program(structure_dir, None)                   weights have no values
    canonicalize(ep)                                    the same program under canonical names

The format covers ATen programs (from torch.export) and programs of executorch's edge dialect, with dynamic shapes,
mutated buffers, and graphs nested in higher-order operators. `canonicalize` is for a partition: nodes, constants and
symbols are named by their order (x0 inputs, c0 constants, n0 nodes, s0 and u0 symbols), so that equal partitions of
different models, or at different positions in a model, have equal bytes.

This format exists because no format of torch keeps edge operators, excludes traces and is free of pickles.

Private names used, checked on torch 2.14.0 and executorch 1.5.1: torch._export.verifier.load_verifier,
torch._guards.detect_fake_mode, ExportedProgram (_state_dict, _constants),
torch.utils._pytree (tree_flatten, tree_unflatten), executorch.exir.verification.verifier.EXIREdgeDialectVerifier. None
is patched.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch._export.verifier import load_verifier
from torch._guards import detect_fake_mode
from torch.export import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from torch.utils import _pytree as pytree

from modelbuild_rules.model.steps.exported.graph import GraphReader, GraphWriter, canonical_names
from modelbuild_rules.model.steps.exported.sources import Sources, ValuesNeeded
from modelbuild_rules.model.steps.exported.symbols import SymbolReader, SymbolWriter
from modelbuild_rules.model.steps.exported.tensors import STRUCTURE, VALUES, read_tensors, write_tensors
from modelbuild_rules.model.steps.exported.values import read_value, write_value

Json = Any
FORMAT = 1
_ARGUMENTS = (TensorArgument, SymIntArgument, SymFloatArgument, SymBoolArgument)
_CONSTANTS, _INTEGERS = 1 << 20, 1 << 12
"""The maximum sizes, in bytes, of values in a program's structure: a constant of the graph, and other integers."""
_STORED = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def save_program(ep: ExportedProgram, structure_dir: Path, weights_dir: Path, values: bool = False) -> None:
    """Write a program. With `values`, its structure has the values that may decide how it is lowered: constants of the
    graph, and integers and booleans that a node reads, up to a size. Raises ValueError for a program with a node, value
    or tensor that the format lacks."""
    document, tensors = _write(ep, canonical=False)
    document["tensors"] = write_tensors(tensors, weights_dir)
    (structure_dir / STRUCTURE).write_text(_lines(document) + "\n", encoding="utf-8")
    deciding = _deciding(ep) if values else set()
    files = {entry["file"] for entry in document["tensors"] if entry["name"] in deciding}
    for file in sorted(files):
        (structure_dir / VALUES).mkdir(exist_ok=True)
        (structure_dir / VALUES / file).write_bytes((weights_dir / file).read_bytes())


def load_structure(structure_dir: Path) -> tuple[ExportedProgram, Sources]:
    """Read a program without its weights, except the values in its structure. Other tensors are fake; return their
    sources, names of files of its weights, too. Raises ValueError as `load_program`."""
    ep = load_program(structure_dir, None)
    table = json.loads((structure_dir / STRUCTURE).read_text(encoding="utf-8"))["tensors"]
    kept = [entry for entry in table if (structure_dir / VALUES / entry["file"]).exists()]
    files = {entry["name"]: entry["file"] for entry in table}
    return ep, fake_weights(ep, files, read_tensors(kept, structure_dir / VALUES))


def fake_weights(ep: ExportedProgram, names: Mapping[str, str], values: Mapping[str, torch.Tensor]) -> Sources:
    """Give a program without weights the values of some, in place, and fake tensors for the others. Return the sources
    of the fake tensors, which have the given names. Raises ValuesNeeded for a program without tensors."""
    mode = detect_fake_mode([node.meta.get("val") for node in ep.graph.nodes])
    if mode is None:
        raise ValuesNeeded("the program has no tensors")
    sources, made = Sources(), dict[int, torch.Tensor]()

    def replaced(name: str, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in made:
            new = values.get(name)
            if new is None:
                with mode:
                    new = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
                sources.add(new, names[name])
            made[id(tensor)] = torch.nn.Parameter(new, False) if isinstance(tensor, torch.nn.Parameter) else new
        return made[id(tensor)]

    for home in (ep._state_dict, ep._constants):
        home.update({name: replaced(name, tensor) for name, tensor in home.items()})
    return sources


def _deciding(ep: ExportedProgram) -> set[str]:
    """Return the names of the tensors whose values may decide how a program is lowered."""
    nodes = {node.name: node for node in ep.graph.nodes}
    found = set()
    for spec in ep.graph_signature.input_specs:
        if spec.kind in _STORED and nodes[spec.arg.name].users:
            tensor = _stored(ep, str(spec.target))
            size, plain = (
                tensor.numel() * tensor.element_size(),
                not (tensor.is_floating_point() or tensor.is_complex()),
            )
            if size <= (_CONSTANTS if spec.kind == InputKind.CONSTANT_TENSOR else _INTEGERS if plain else -1):
                found.add(str(spec.target))
    return found


def load_program(structure_dir: Path, weights_dir: Path | None) -> ExportedProgram:
    """Read a program that `save_program` wrote. Without its weights, they are on the device `meta`. Raises ValueError
    for another version of the format."""
    document = json.loads((structure_dir / STRUCTURE).read_text(encoding="utf-8"))
    if document["format"] != FORMAT:
        raise ValueError(f"program format {document['format']}; expected {FORMAT}")
    return _read(document, read_tensors(document["tensors"], weights_dir))


def canonicalize(ep: ExportedProgram, annotations: Collection[str] = ()) -> ExportedProgram:
    """Return a copy under canonical names, with no metadata except `annotations` (keys of nodes' meta). The copy shares
    the original's weights."""
    made = _read(*_write(ep, canonical=True))
    names = _canonical(ep)[0]
    nodes = {node.name: node for node in made.graph.nodes}
    for node in ep.graph.nodes:
        found = {key: node.meta[key] for key in annotations if key in node.meta}
        if found:
            nodes[names[node.name]].meta.update(found)
    return made


def _canonical(ep: ExportedProgram) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return canonical names of nodes, and for each input that repeats a tensor the first input with that tensor:
    executorch adds an input per partition, and per user in it, for a tensor that several partitions share."""
    targets = {s.arg.name: s.target for s in ep.graph_signature.input_specs if s.kind in _STORED}
    first: dict[str, str] = {}
    found = {name: first.setdefault(target, name) for name, target in targets.items()}
    same = {name: other for name, other in found.items() if other != name}
    return canonical_names(ep.graph, targets, same), same


def _write(ep: ExportedProgram, canonical: bool) -> tuple[dict[str, Json], dict[str, torch.Tensor]]:
    signature = ep.graph_signature
    names, same = _canonical(ep) if canonical else ({}, {})
    inputs = [spec for spec in signature.input_specs if spec.arg.name not in same]
    targets = {s.target: names.get(s.arg.name, s.target) for s in inputs if s.target is not None}
    symbols = SymbolWriter(ep.range_constraints)
    graph = GraphWriter(symbols, canonical).write(ep.graph_module, names, same)
    call = ep.module_call_graph[0].signature
    if call is None:
        raise ValueError("the program has no call signature")
    return {
        "format": FORMAT,
        "dialect": ep.verifiers[0].dialect,
        "symbols": symbols.table,
        "inputs": [_write_input(s, names, targets) for s in inputs],
        "outputs": [_write_output(s, names, targets) for s in signature.output_specs],
        "call": [_write_spec(call.in_spec), _write_spec(call.out_spec)],
        "argument_names": None if canonical else call.forward_arg_names,
        "graph": graph,
    }, {targets[s.target]: _stored(ep, s.target) for s in inputs if s.kind in _STORED}


def _read(document: Mapping[str, Json], tensors: Mapping[str, torch.Tensor]) -> ExportedProgram:
    symbols = SymbolReader(document["symbols"])
    root, graph = GraphReader(symbols).read(document["graph"])
    inputs = [_read_input(s) for s in document["inputs"]]
    outputs = [_read_output(s) for s in document["outputs"]]
    parameters: dict[int, torch.nn.Parameter] = {}
    state: dict[str, torch.Tensor] = {}
    constants: dict[str, torch.Tensor] = {}
    for spec in inputs:
        if spec.kind == InputKind.PARAMETER:
            tensor = tensors[spec.target]
            state[spec.target] = parameters.setdefault(id(tensor), torch.nn.Parameter(tensor, requires_grad=False))
        elif spec.kind in _STORED:
            home = state if spec.kind == InputKind.BUFFER and spec.persistent else constants
            home[spec.target] = tensors[spec.target]
    in_spec, out_spec = (_read_spec(s) for s in document["call"])
    call = ModuleCallSignature([], [], in_spec, out_spec, document["argument_names"])
    return ExportedProgram(
        root=root,
        graph=graph,
        graph_signature=ExportGraphSignature(inputs, outputs),
        state_dict=state,
        range_constraints=symbols.range_constraints,
        module_call_graph=[ModuleCallEntry("", call)],
        constants=constants,
        verifiers=[_verifier(document["dialect"])],
    )


def _stored(ep: ExportedProgram, target: str) -> torch.Tensor:
    value = ep.state_dict.get(target, ep.constants.get(target))
    if not isinstance(value, torch.Tensor):
        raise ValueError(f"the constant '{target}' is a {type(value).__name__}; expected tensors only")
    return value


def _verifier(dialect: str) -> Any:
    if dialect != "EDGE":
        return load_verifier(dialect)
    from executorch.exir import EdgeCompileConfig
    from executorch.exir.verification.verifier import EXIREdgeDialectVerifier

    return EXIREdgeDialectVerifier(EdgeCompileConfig(_check_ir_validity=False), class_only=True)


def _write_input(spec: InputSpec, names: Mapping[str, str], targets: Mapping[str, str]) -> Json:
    if spec.kind not in (InputKind.USER_INPUT, *_STORED):
        raise ValueError(f"an input of kind {spec.kind.name} ('{spec.target}'); expected tensors only")
    target = None if spec.target is None else targets[spec.target]
    return [spec.kind.name, _write_argument(spec.arg, names), target, spec.persistent]


def _read_input(written: Json) -> InputSpec:
    kind, argument, target, persistent = written
    return InputSpec(InputKind[kind], _read_argument(argument), target, persistent)


def _write_output(spec: OutputSpec, names: Mapping[str, str], targets: Mapping[str, str]) -> Json:
    target = spec.target
    if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION):
        target = targets[target]
    elif spec.kind == OutputKind.USER_INPUT_MUTATION:
        target = names.get(target, target)
    return [spec.kind.name, _write_argument(spec.arg, names), target]


def _read_output(written: Json) -> OutputSpec:
    kind, argument, target = written
    return OutputSpec(OutputKind[kind], _read_argument(argument), target)


def _write_argument(argument: Any, names: Mapping[str, str]) -> Json:
    name = names.get(argument.name, argument.name)
    if isinstance(argument, ConstantArgument):
        return ["ConstantArgument", name, write_value(argument.value, lambda n: None)]
    if isinstance(argument, _ARGUMENTS):
        return [type(argument).__name__, name]
    raise ValueError(f"'{name}' is a {type(argument).__name__}; expected tensors and numbers as inputs and outputs")


def _read_argument(written: Json) -> Any:
    kind, name, *value = written
    if kind == "ConstantArgument":
        return ConstantArgument(name=name, value=read_value(value[0], lambda n: None))
    return next(a for a in _ARGUMENTS if a.__name__ == kind)(name=name)


def _write_spec(spec: Any) -> Json:
    """Return the nesting of arguments or results as JSON: their containers with a number at each leaf."""
    return write_value(pytree.tree_unflatten(list(range(spec.num_leaves)), spec), lambda n: None)


def _read_spec(written: Json) -> Any:
    return pytree.tree_flatten(read_value(written, lambda n: None))[1]


def _lines(value: Json, depth: int = 0) -> str:
    """Return canonical JSON with one line per node, so that text diffs of programs are readable."""
    if isinstance(value, dict) and value and depth < 3:
        items = (f"{json.dumps(k)}:{_lines(v, depth + 1)}" for k, v in sorted(value.items()))
        return "{\n" + ",\n".join(items) + "}"
    if isinstance(value, list) and value and depth < 3:
        return "[\n" + ",\n".join(_lines(v, 3) for v in value) + "]"
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
