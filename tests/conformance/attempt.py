"""Build the program of a kind with the steps of a build, run it with the C++ runtime, and compare with eager mode."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from modelbuild.step import Step, StepError
from tests.conformance.kinds import Call, Kind, of_function
from tests.rules.xnnpack_steps import compile_xnnpack

XNNPACK = {
    "kind": "xnnpack",
    "partitioning": "modelbuild_rules.backends.xnnpack.steps.partitioning",
    "attributes": {
        "precisions": ["dynamic_quant", "fp32", "static_quant"],
        "per_op_mode": False,
        "exclude_ops": [],
        "force_non_static_weights_for_f32_linear": False,
        "lossy": [],
    },
}
PORTABLE = {"kind": "portable", "partitioning": "", "attributes": {"ops": None}}
STACKS: Mapping[str, Sequence[Mapping[str, Any]]] = {"xnnpack": (XNNPACK, PORTABLE), "portable": (PORTABLE,)}

SECONDS = 120
"""The most seconds of processor time that a kind may take."""

# Relative tolerances; other types have none.
CLOSE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 1e-4, torch.float64: 1e-10}


@dataclass(frozen=True)
class Outcome:
    """The result of an attempt, and a line about it: "right"; "refused" by a step that makes the program, or
    "refused by verify", which compares it with its model; "wrong", "cannot run", "killed" or "internal error"."""

    word: str
    why: str = ""

    @property
    def is_fault(self) -> bool:
        return self.word not in ("right", "refused", "refused by verify")


class _Ended(Exception):
    """Raised with the outcome of an attempt that ends early."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


def attempt(kind: Kind, stacks: Sequence[str] = tuple(STACKS)) -> dict[str, Outcome]:
    """Return the outcome of a kind by stack. Works in processes of its own, of which a crash is an outcome."""

    def every() -> dict[str, Outcome]:
        torch.set_num_threads(1)
        with tempfile.TemporaryDirectory(prefix="conformance-") as name:
            folder = Path(name)
            try:
                wanted = _results(kind)
                _export(kind, folder)
            except _Ended as ended:
                return dict.fromkeys(stacks, ended.outcome)
            return {stack: forked(lambda stack=stack: _on_stack(kind, wanted, folder, stack)) for stack in stacks}

    found: dict[str, Outcome] | Outcome = forked(every)
    return dict.fromkeys(stacks, found) if isinstance(found, Outcome) else found


def warm() -> None:
    """Import the libraries of the steps, and fill their caches, for the processes that attempts fork."""
    kind = Kind("warm", of_function(lambda x, w: (x @ w).relu().cumsum(0), [torch.ones(4, 4)]), [(torch.ones(2, 4),)])
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="conformance-") as name:
        _export(kind, Path(name))
        for stack in STACKS:
            _lower(Path(name), Path(name) / stack, STACKS[stack])


def forked(work: Callable[[], Any]) -> Any:
    """Return the result of a function that a child of this process calls: an Outcome, or a dictionary of them. It is
    "killed" if the child does not end by itself."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as said:
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            _answer(work, writing)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            text = pipe.read()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if not text:
            said.seek(0)
            last = (said.read().decode(errors="replace").strip().splitlines() or [""])[-1]
            return Outcome("killed", f"{signal.Signals(-code).name if code < 0 else code}: {last[:200]}")
    found = json.loads(text)
    return Outcome(*found) if isinstance(found, list) else {stack: Outcome(*each) for stack, each in found.items()}


def _answer(work: Callable[[], Any], writing: int) -> None:
    """Write the result of a function into a pipe, and end the process."""
    try:
        found = work()
    except BaseException as error:
        found = Outcome("internal error", f"{type(error).__name__}: {error}".splitlines()[0][:300])
    written = (
        {stack: [each.word, each.why] for stack, each in found.items()}
        if isinstance(found, dict)
        else [found.word, found.why]
    )
    os.write(writing, json.dumps(written).encode())
    os._exit(0)


def _results(kind: Kind) -> list[list[Any]]:
    """Return the results of each call in eager mode."""
    module = kind.make().eval()
    found = []
    for call in kind.calls:
        torch.manual_seed(0)
        with torch.no_grad():
            leaves = pytree.tree_leaves(module(*(each.clone() for each in call)))
        # Copies: the next call may change what a result shares with a buffer.
        found.append([each.clone() if isinstance(each, Tensor) else each for each in leaves])
    return found


def _export(kind: Kind, folder: Path) -> None:
    """Run the export step on a kind. Raises _Ended if it does not make a program."""
    from modelbuild_rules.model.steps.export import export_module

    outputs = _made(folder, "program", "weights", "calls") | {
        "signature": folder / "signature.json",
        "examples": folder / "examples.safetensors",
        "debug": folder / "debug.json",
    }
    inputs, declared, dynamic = {}, [], {}
    for number, tensor in enumerate(kind.calls[0]):
        path = folder / f"{number}.pt"
        torch.save(tensor, path)
        inputs[f"example.{number}"] = (path,)
        shape: list[int | str] = list(tensor.shape)
        for axis, size in enumerate(tensor.shape):
            if (number, axis) in kind.dynamic:
                least, greatest = kind.dynamic[number, axis]
                shape[axis] = f"n{size}"
                dynamic[f"n{size}"] = {"min": least, "max": greatest, "example": size}
        declared.append({"name": f"i{number}", "shape": shape, "dtype": None, "range": None})
    params: Any = {
        "entry": "kinds.py:make",
        "method": "forward",
        "inputs": declared,
        "call": None,
        "dynamic": dynamic,
        "outputs": None,
        "seed": 0,
    }
    step = Step(params, inputs, outputs, folder)
    _refusing("export", lambda: export_module(step, kind.make().eval(), params, kind.name))


def _made(folder: Path, *names: str) -> dict[str, Path]:
    for name in names:
        (folder / name).mkdir(parents=True)
    return {name: folder / name for name in names}


def _refusing(place: str, work: Callable[[], Any]) -> None:
    """Do the work of a step. Raises _Ended for an error of the step."""
    try:
        work()
    except StepError as error:
        raise _Ended(Outcome("refused", f"{place}: {error}".replace("\n", "; "))) from None
    except Exception as error:
        text = f"{type(error).__name__}: {error}".replace("\n", " ")[:300]
        raise _Ended(Outcome("internal error", f"{place}: {text}")) from None


def _on_stack(kind: Kind, wanted: Sequence[Sequence[Any]], model: Path, stack: str) -> Outcome:
    """Return the outcome of an exported kind on a stack."""
    folder = model / stack
    try:
        pte = _lower(model, folder, STACKS[stack])
    except _Ended as ended:
        return ended.outcome
    return _run(kind, wanted, pte)


def _lower(model: Path, folder: Path, stack: Sequence[Mapping[str, Any]]) -> Path:
    """Return the program that the steps make of an exported model. Raises _Ended if they do not."""
    from modelbuild_rules.program.steps import emit, partition

    lowered = _made(folder, "residual", "partitions") | {name: folder / name for name in ("plan", "report", "notes")}
    exported = {name: (model / name,) for name in ("program", "weights")}
    params = {"backends": stack, "external_weights": False}
    _refusing("partition", lambda: partition.run(Step(params, exported, lowered, folder)))
    ids = [each["id"] for each in json.loads(lowered["plan"].read_text())]
    for id in ids:
        _refusing("compile", lambda id=id: compile_xnnpack(folder / "partitions" / id, folder / "compiled" / id))
    linked = {
        "residual": (lowered["residual"],),
        "report": (lowered["report"],),
        "signature": (model / "signature.json",),
        "parts": tuple(folder / "compiled" / id for id in ids),
    }
    files = {"pte": "model.pte", "delegation": "delegation.json", "signature": "program.json"}
    outputs = {name: folder / file for name, file in files.items()}
    given = {"partitions": {"forward": ids}, "sidecars": {}}
    _refusing("emit", lambda: emit.run(Step(given, linked, outputs, folder)))
    return outputs["pte"]


def _run(kind: Kind, wanted: Sequence[Sequence[Any]], pte: Path) -> Outcome:
    """Run a program. The verification of a build makes the first call, the example, too, and one of the least sizes; it
    refuses what it finds."""
    from modelbuild_runtime import InputError, ProgramError, load

    number, word, problem = 0, "", ""
    try:
        program = load(pte)
        for number, (call, results) in enumerate(zip(kind.calls, wanted, strict=True)):  # noqa: B007
            found = list(program.run([each.clone() for each in call]).values())
            if problem := _difference(kind, call, found, results):
                word = "wrong"
                break
    except (InputError, ProgramError) as error:
        word, problem = "cannot run", str(error).splitlines()[0].replace(f"{pte}: ", "")
    if not word:
        return Outcome("right")
    word = "refused by verify" if number == 0 or _is_least(kind, kind.calls[number]) else word
    return Outcome(word, f"call {number + 1} of {len(kind.calls)}: {problem}"[:300])


def _is_least(kind: Kind, call: Call) -> bool:
    """Return whether a call has the least sizes."""
    return bool(kind.dynamic) and all(call[i].shape[axis] == least for (i, axis), (least, _) in kind.dynamic.items())


def _difference(kind: Kind, call: Call, found: Sequence[Any], wanted: Sequence[Any]) -> str:
    """Return how results differ; '' if they do not."""
    if len(found) != len(wanted):
        return f"{len(found)} outputs, not {len(wanted)}"
    have = [_tensor(each) for each in found]
    want = [_tensor(each) for each in wanted]
    for place, (h, w) in enumerate(zip(have, want, strict=True)):
        # The runtime returns bfloat16 as float32.
        as_type = torch.float32 if w.dtype == torch.bfloat16 else w.dtype
        if h.shape != w.shape or h.dtype != as_type:
            return f"output {place}: {h.dtype}{list(h.shape)}, not {w.dtype}{list(w.shape)}"
    if kind.undefined:
        return ""
    for place, (h, w) in enumerate(zip(have, want, strict=True)):
        if not _close(h, w) and not (kind.tied and _same_choice(call[0], h, w)):
            return f"output {place}: {h.flatten()[:6].tolist()}, not {w.flatten()[:6].tolist()}"
    return ""


def _same_choice(values: Tensor, found: Tensor, wanted: Tensor) -> bool:
    """Return whether indices along some dimension choose the same values as others."""
    if wanted.dtype != torch.int64 or wanted.dim() != values.dim():
        return False
    if not all(0 <= index < max(values.shape) for index in found.flatten().tolist()):
        return False
    fitting = (
        dim for dim in range(values.dim()) if found.max() < values.shape[dim] and wanted.max() < values.shape[dim]
    )
    return any(torch.equal(values.gather(dim, found), values.gather(dim, wanted)) for dim in fitting)


def _tensor(value: Any) -> Tensor:
    """Return a result as a tensor. None, which both runtimes know, becomes no numbers."""
    if value is None or (isinstance(value, np.ndarray) and value.dtype == object):
        return torch.empty(0)
    return value.detach() if isinstance(value, Tensor) else torch.as_tensor(value)


def _close(found: Tensor, wanted: Tensor) -> bool:
    relative = CLOSE.get(wanted.dtype, 0.0)
    if not relative:
        return torch.equal(found, wanted)
    numbers, other = wanted.double(), found.double()
    finite = numbers[numbers.isfinite()]
    scale = max(1.0, finite.abs().max().item() if finite.numel() else 1.0)
    return torch.allclose(other, numbers, rtol=relative, atol=relative * scale / 10, equal_nan=True)
