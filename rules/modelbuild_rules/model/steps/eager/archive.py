"""Read a model from a file of torch.export.save or torch.jit.save, and convert TorchScript for torch.export.

Private names used, checked on torch 2.14.0: torch._export.converter.TS2EPConverter, and the environment variable
TORCH_FORCE_WEIGHTS_ONLY_LOAD. None is patched.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile, ZipFile, is_zipfile

import torch

from modelbuild.step import StepError
from modelbuild_rules.model.steps.eager.entry import first_line

_EXPECTED = "expected a file of torch.export.save (.pt2) or torch.jit.save"


def load_archive(path: Path) -> torch.nn.Module:
    """Return the module in a file. Pickles in it are read as weights only, so nothing in it runs as Python code. Raises
    StepError for any other file."""
    kind = archive_kind(path)
    if kind is None:
        problem = (
            "contains neither TorchScript nor an exported program" if is_zipfile(path) else "not an archive of torch"
        )
        raise StepError(f"{path.name}: {problem}; {_EXPECTED}")
    if kind == "exported program":
        program = load_program(path)
        module = program.module(check_guards=False)
        _, kwargs = program.example_inputs or ((), {})
        return _WithKeywords(module) if kwargs else module
    with _loading(path):
        return torch.jit.load(path, map_location="cpu")


class _WithKeywords(torch.nn.Module):
    """Calls an exported module with keyword arguments. torch.export would lose them if it got the module itself."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)


def load_program(path: Path) -> torch.export.ExportedProgram:
    """Return the program in a file of torch.export.save. Raises StepError if it cannot be loaded."""
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
    with _loading(path):
        return torch.export.load(path)


def archive_kind(path: Path) -> Literal["exported program", "TorchScript"] | None:
    """Return the kind of model in a file; None for another file, such as a state dict."""
    try:
        with ZipFile(path) as archive:
            names = archive.namelist()
    except (BadZipFile, OSError, ValueError):
        return None
    if any(name.endswith("/constants.pkl") for name in names):
        return "TorchScript"
    return "exported program" if any(name.endswith("/archive_format") for name in names) else None


@contextmanager
def _loading(path: Path) -> Iterator[None]:
    """Turn any exception of torch into StepError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that TorchScript is deprecated
            yield
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
