"""A module from its entry, and its weights from files."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import torch

from modelbuild.errors import did_you_mean
from modelbuild.step import StepError


def load_model(root: Path, entry: str, kwargs: Mapping[str, Any]) -> torch.nn.Module:
    """Call the entry, `path/in/workspace.py:name`. Its own exceptions go through; StepError for what is no module."""
    path, _, name = entry.partition(":")
    sys.dont_write_bytecode = True
    # By workspace path first; then by plain name for sources that import their neighbours so.
    sys.path[:0] = [str(root), str((root / path).parent)]
    source = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    if Path(str(source.__file__)) != root / path:
        raise StepError(f"'{path}' cannot be imported: an installed package is called '{path.partition('/')[0]}' too")
    if not hasattr(source, name):
        own = [key for key, value in vars(source).items() if callable(value)]
        raise StepError(f"{path} has no '{name}'{did_you_mean(name, own)}")
    module = getattr(source, name)(**kwargs)
    if not isinstance(module, torch.nn.Module):
        raise StepError(f"{entry} gives a {type(module).__name__}; expected a torch.nn.Module")
    return module


def load_weights(module: torch.nn.Module, files: Mapping[str, Path], allow_missing: bool) -> None:
    """Load state dicts into a module, each under its prefix. Raises StepError for keys that do not fit."""
    if not files:
        return
    state: dict[str, torch.Tensor] = {}
    for prefix, path in files.items():
        state.update({f"{prefix}.{key}" if prefix else key: value for key, value in _read(path).items()})
    expected = module.state_dict()
    for key in state:
        if key not in expected:
            raise StepError(f"the weights' '{key}' is nothing of the module{did_you_mean(key, expected)}")
        if state[key].shape != expected[key].shape:
            shapes = f"{list(state[key].shape)} in the file, {list(expected[key].shape)} in the module"
            raise StepError(f"'{key}' has another shape: {shapes}")
    missing = [key for key in expected if key not in state]
    if missing and not allow_missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        hint = did_you_mean(missing[0], list(state))
        raise StepError(f"no weights for '{missing[0]}'{more}{hint}; allow_missing = true keeps initial values")
    module.load_state_dict(state, strict=False)


def _read(path: Path) -> Mapping[str, torch.Tensor]:
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return dict(load_file(path))
    try:
        # What torch wrote before 1.6 is no zip archive and can't be mapped.
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zipfile(path))
    except Exception as error:
        reason = str(error).strip().splitlines()[0]
        raise StepError(f"{path.name}: cannot be read as weights alone: {reason}") from error
    if isinstance(found, dict) and isinstance(found.get("state_dict"), dict):
        found = found["state_dict"]
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise StepError(f"{path.name}: expected a state dict, a table of tensors by name")
    return found
