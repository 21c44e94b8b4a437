"""Make a module by calling its entry, and load its weights from files."""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, is_zipfile

import numpy as np
import torch
from torch.nn.parameter import is_lazy

from modelbuild.errors import did_you_mean
from modelbuild.step import StepError
from modelbuild_rules.operators.steps.source_files import import_source

# Messages of torch.load about a pickle that names a function or a class, and the beginning of all its refusals.
_REFUSED = re.compile(r"(?:Unsupported (?:global|class|operand): (?:GLOBAL )?|unsupported GLOBAL )([\w.]+)")
_ADVICE = "Weights only load failed"


def seed_generators(seed: int) -> None:
    """Seed the generators that a module's code uses by default: torch's, numpy's and Python's."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


def load_model(root: Path, entry: str, kwargs: Mapping[str, Any]) -> torch.nn.Module:
    """Return the module that the entry, `path/in/workspace.py:name`, returns. Raises StepError if the entry cannot be
    called with `kwargs` or returns no module; the entry's own exceptions are not caught."""
    function = load_function(root, entry)
    _check_kwargs(function, entry, kwargs)
    module = function(**kwargs)
    if not isinstance(module, torch.nn.Module):
        raise StepError(f"{entry} returns a {type(module).__name__}; expected a torch.nn.Module")
    return module


def load_function(root: Path, entry: str) -> Any:
    """Import the object that an entry names. Raises StepError if its file has no such name; exceptions of the file are
    not caught."""
    path, _, name = entry.partition(":")
    source = import_source(root, path)
    if not hasattr(source, name):
        own = [key for key, value in vars(source).items() if callable(value)]
        raise StepError(f"{path} has no '{name}'{did_you_mean(name, own)}")
    return getattr(source, name)


def _check_kwargs(function: Any, entry: str, kwargs: Mapping[str, Any]) -> None:
    if not callable(function):
        raise StepError(f"{entry} is a {type(function).__name__}; expected a class or a function")
    try:
        inspect.signature(function).bind(**kwargs)
    except ValueError:
        return  # Python does not know its signature
    except TypeError as error:
        given = f"the kwargs {', '.join(kwargs)}" if kwargs else "no kwargs"
        raise StepError(f"{entry}, called with {given}: {error}") from error


def load_weights(module: torch.nn.Module, files: Mapping[str, Path], allow_missing: bool) -> None:
    """Load state dicts into a module, each under its prefix. If a tensor has several names, such as tied weights, one
    name is enough. Raises StepError for unknown or duplicate keys, wrong shapes and, unless allowed, missing keys."""
    if not files:
        return
    state: dict[str, torch.Tensor] = {}
    origin: dict[str, str] = {}
    for prefix, path in files.items():
        for key, value in read_state_dict(path).items():
            name = f"{prefix}.{key}" if prefix else key
            if name in state:
                raise StepError(f"two files have weights for '{name}'; {path.name} is the second")
            state[name] = value
            origin[name] = path.name
    expected = module.state_dict()
    for key in state:
        if key not in expected:
            hint = did_you_mean(key, expected)
            raise StepError(f"{origin[key]}: the module has no parameter or buffer '{key}'{hint}")
        if state[key].shape != expected[key].shape:
            shapes = f"{list(state[key].shape)} in the file, {list(expected[key].shape)} in the module"
            raise StepError(f"{origin[key]}: '{key}' has the wrong shape: {shapes}")
    tensors = module.state_dict(keep_vars=True)
    given = {id(tensors[key]) for key in state}
    missing = [key for key in expected if id(tensors[key]) not in given]  # tied parameters are one tensor
    if missing and not allow_missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise StepError(f"no weights for '{missing[0]}'{more}; allow_missing = true keeps initial values")
    try:
        module.load_state_dict(state, strict=False)
    except Exception as error:  # for sparse or quantized tensors, for example
        raise StepError(f"the weights cannot be loaded into the module: {first_line(error)}") from error


def set_inference_mode(module: torch.nn.Module) -> None:
    """Switch a module to evaluation mode, without gradients. A module made by torch.export (a quantized one, for
    example) keeps the mode that it was exported in."""
    with suppress(NotImplementedError):
        module.eval()
    for parameter in module.parameters():  # not by module.requires_grad_, which TorchScript lacks
        if not is_lazy(parameter):
            parameter.requires_grad_(False)


def first_line(error: BaseException) -> str:
    """Return the first line of a library's exception, without the advice that follows."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def load_pickle(path: Path) -> Any:
    """Read a file of torch.save: tensors, and lists and tables of them, but no code. Raises torch's exceptions, and
    ValueError for a compressed archive: it may expand to any size, whereas torch's own files are mapped."""
    # Files of torch before 1.6 are not zip archives and can't be mapped.
    archive = is_zipfile(path)
    if archive:
        with ZipFile(path) as opened:
            if any(entry.compress_type != ZIP_STORED for entry in opened.infolist()):
                raise ValueError("it is compressed; expected a file as torch.save writes it")
    return torch.load(path, map_location="cpu", weights_only=True, mmap=archive)


def read_state_dict(path: Path) -> Mapping[str, torch.Tensor]:
    """Return the tensors in a file, which is read as weights only. Raises StepError for any other file."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return dict(load_file(path))
        found = load_pickle(path)
    except Exception as error:
        refused = _REFUSED.search(str(error))
        reason = first_line(error)
        if refused:
            reason = f"it contains code ({refused[1]}); expected a state dict, as model.state_dict() returns it"
        elif reason.startswith(_ADVICE):
            reason = "it is a pickle of something else; expected a state dict, as model.state_dict() returns it"
        raise StepError(f"{path.name}: cannot be read as weights only: {reason}") from error
    if isinstance(found, dict) and isinstance(found.get("state_dict"), dict):
        found = found["state_dict"]
    if not _is_state_dict(found):
        inner = (
            [key for key, value in found.items() if value and _is_state_dict(value)] if isinstance(found, dict) else []
        )
        hint = f"; its entry {inner[0]!r} is one: save that alone" if inner else ""
        raise StepError(f"{path.name}: expected a state dict, a table of tensors by name{hint}")
    return found


def _is_state_dict(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(key, str) and isinstance(each, torch.Tensor) for key, each in value.items()
    )
