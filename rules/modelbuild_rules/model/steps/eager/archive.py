"""Read a model from a file of torch.export.save or torch.jit.save, and convert TorchScript for torch.export.

Private names used, checked on torch 2.14.0: torch._export.converter.TS2EPConverter, and the environment variable
TORCH_FORCE_WEIGHTS_ONLY_LOAD. None is patched.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import torch

from modelbuild.step import StepError
from modelbuild_rules.model.steps.eager.entry import first_line

_EXPECTED = "expected a file of torch.export.save (.pt2) or torch.jit.save"


def load_archive(path: Path) -> torch.nn.Module:
    """Return the module in a file. Pickles in it are read as weights only, so nothing in it runs as Python code. Raises
    StepError for any other file."""
    try:
        with ZipFile(path) as archive:
            names = archive.namelist()
    except (BadZipFile, OSError, ValueError) as error:
        raise StepError(f"{path.name}: not an archive of torch; {_EXPECTED}") from error
    script = any(name.endswith("/constants.pkl") for name in names)
    if not script and not any(name.endswith("/archive_format") for name in names):
        raise StepError(f"{path.name}: contains neither TorchScript nor an exported program; {_EXPECTED}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that TorchScript is deprecated
            if script:
                return torch.jit.load(path, map_location="cpu")
            os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
            return torch.export.load(path).module(check_guards=False)
    except Exception as error:
        raise StepError(f"{path.name}: torch {torch.__version__} cannot load it: {first_line(error)}") from error


def from_torchscript(
    module: torch.jit.ScriptModule, args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str
) -> torch.nn.Module:
    """Return a module that torch.export accepts. Raises StepError for keyword arguments and for TorchScript that
    torch's converter does not support."""
    if kwargs:
        raise StepError(f"{name} is TorchScript, which torch converts with positional arguments only")
    from torch._export.converter import TS2EPConverter

    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            return TS2EPConverter(module, args).convert().module(check_guards=False)
    except Exception as error:
        raise StepError(
            f"torch {torch.__version__} cannot convert the TorchScript of {name} to an exported program:"
            f" {first_line(error)}"
        ) from error
