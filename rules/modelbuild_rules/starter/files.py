"""The files of new workspaces."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild.api import is_line
from modelbuild.errors import EnvironmentProblem, UsageError

if TYPE_CHECKING:
    from modelbuild_rules.starter.documents import Checkpoint, CheckpointInput

_READER = "modelbuild_rules.starter.steps.read_checkpoint"
_SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".pt2")
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Starter:
    """A new workspace.

    files   texts by path
    copies  files to copy into it, by path
    todo    parts that the user must write, one line each
    runs    next command lines for the user
    """

    files: Mapping[str, str]
    copies: Mapping[str, Path] = field(default_factory=dict)
    todo: Sequence[str] = ()
    runs: Sequence[str] = ()


def example() -> Starter:
    """Return a small model in PyTorch, its program for XNNPACK, and their test."""
    folder = Path(__file__).with_name("example")
    names = ("BUILD.toml", "features.json", "model.py")
    run = "modelbuild run //:net_program --input features=features.json"
    return Starter({name: (folder / name).read_text("utf-8") for name in names}, runs=["modelbuild test //...", run])


def from_checkpoint(path: Path) -> Starter:
    """Return targets for a checkpoint. Another process reads the checkpoint and executes nothing in it. Raises
    UsageError for a file that is not a checkpoint, and EnvironmentProblem if PyTorch is missing."""
    if not path.name.endswith(_SUFFIXES):
        raise UsageError(f"{path}: not a checkpoint; expected a file ending in {', '.join(_SUFFIXES)}")
    if not path.is_file():
        raise UsageError(f"{path}: no such file; expected a checkpoint")
    if not is_line(path.name):
        raise UsageError(f"{path}: the name has control characters; rename the file")
    found = _read(path)
    return _of_state_dict(path, found) if found["kind"] == "state dict" else _of_archive(path, found)


def _read(path: Path) -> Checkpoint:
    if find_spec("torch") is None:
        raise EnvironmentProblem("torch is not installed; install it with: pip install 'modelbuild[models]'")
    command = [sys.executable, "-P", "-m", _READER, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if ended.returncode == 0:
        found: Checkpoint = json.loads(ended.stdout)
        return found
    raise UsageError(
        next(iter(reversed(ended.stderr.strip().splitlines())), f"the reader ended with {ended.returncode}")
    )


def _of_state_dict(path: Path, found: Checkpoint) -> Starter:
    tensors = [
        f"    {name if is_line(name) else ascii(name)}: {dtype}{shape}"
        for name, dtype, shape in found["tensors"][:_SHOWN]
    ]
    if (more := len(found["tensors"]) - _SHOWN) > 0:
        tensors.append(f"    and {more} more")
    about = _ABOUT.format(file=path.name, tensors="\n".join(tensors))
    model = _docstring(about) + _MODEL
    weights = f'entry = "model.py:Net"\nweights = {_quoted(path.name)}'
    build = _build(path.name, weights, [], "# The inputs of forward: fill in their names, sizes and types.\n")
    todo = ["model.py: the module whose state dict this is", "BUILD.toml: the inputs of net"]
    return Starter({"BUILD.toml": build, "model.py": model}, {path.name: path}, todo, ["modelbuild test //..."])


def _of_archive(path: Path, found: Checkpoint) -> Starter:
    exported = f"exported = {_quoted(path.name)}"
    runs = ["modelbuild test //..."]
    if found["kind"] == "exported program":
        build = _build(path.name, exported, found["inputs"], "", found["call"], found["dynamic"])
        return Starter({"BUILD.toml": build}, {path.name: path}, runs=runs)
    build = _build(path.name, exported, [], "# TorchScript has no sizes: fill in those of the inputs of forward.\n")
    return Starter({"BUILD.toml": build}, {path.name: path}, ["BUILD.toml: the inputs of net"], runs)


def _build(
    file: str,
    model: str,
    inputs: Sequence[CheckpointInput],
    comment: str,
    call: str | None = None,
    dynamic: Mapping[str, str | Mapping[str, int]] | None = None,
) -> str:
    declared = [
        f"{{ name = {_quoted(each['name'])}, shape = {_quoted(each['shape'])}, dtype = {_quoted(each['dtype'])} }}"
        for each in inputs
    ] or ['{ name = "x", shape = [1, 3, 224, 224], dtype = "float32" }']
    lines = [model, comment + f"inputs = [{declared[0]}]" if len(declared) == 1 else _list(declared)]
    lines += [f"call = {_quoted(call)}"] if call is not None else []
    if dynamic:
        sizes = [f"{_key(name)} = {_size(each)}" for name, each in dynamic.items()]
        lines.append(f"dynamic = {{ {', '.join(sizes)} }}")
    return _BUILD.format(file=file, model="\n".join(lines))


def _list(declared: Sequence[str]) -> str:
    return "\n".join(("inputs = [", *(f"    {each}," for each in declared), "]"))


def _size(size: str | Mapping[str, int]) -> str:
    if isinstance(size, str):
        return _quoted(size)
    return "{ " + ", ".join(f"{name} = {value}" for name, value in size.items()) + " }"


def _docstring(text: str) -> str:
    """Return a docstring with any text: no name in it can end it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"""{escaped}"""\n'


def _quoted(value: str | list[int | str]) -> str:
    """Return a string or an array of TOML, which has JSON's escapes. TOML has no raw delete character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else _quoted(name)


_BUILD = """\
# The model in {file}, the program that is built from it, and a test that compares both.
# `modelbuild help torch_model` describes the attributes of such a table; so does `modelbuild help` of any other rule.

[[torch_model]]
name = "net"
{model}

# net_program.pte: layers run on XNNPACK, which is for CPUs; operators that it lacks, on ExecuTorch's portable kernels.
[[pte_program]]
name = "net_program"
model = ":net"
stack = ["xnnpack", "portable"]

# Runs the program and the model in PyTorch on the same random inputs.
[[pte_test]]
name = "net_test"
program = ":net_program"
model = ":net"
cases = [{{ name = "random", generator = {{ seed = 0, count = 3 }} }}]
"""

_ABOUT = """\
The module of {file}: fill in its layers, or import the class that you trained.

The file contains these tensors, which the module's parameters and buffers must match:

{tensors}
"""

_MODEL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        raise NotImplementedError("make the layers here, with the names in the list above")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError("call the layers here")
"""
