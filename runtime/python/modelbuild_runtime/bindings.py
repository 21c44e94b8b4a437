"""ExecuTorch's Python runtime. No other file uses it, and no other file imports torch.

The pybindings of executorch take and give torch tensors, and their shared library needs libtorch loaded, so torch is
imported here, when a program is first run.

Private names used, checked on executorch 1.5.1 (tests/runtime/test_runtime_bindings.py fails when one is gone):
  executorch.extension.pybindings._C  the compiled module. Its public face, executorch.runtime, takes no .ptd and
                                      imports executorch.exir, which takes seconds
  _load_for_executorch, _load_program, _get_operator_names, _get_registered_backend_names
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from modelbuild_runtime.describe import MethodDescription, Port
from modelbuild_runtime.errors import ProgramError
from modelbuild_runtime.files.contents import KernelLibrary

# executorch/runtime/core/error.h
_ERRORS = {
    0x01: "internal error",
    0x02: "invalid state",
    0x10: "not supported",
    0x11: "not implemented",
    0x12: "invalid argument",
    0x13: "invalid type",
    0x14: "an operator has no kernel",
    0x20: "not found",
    0x21: "out of memory",
    0x22: "the file can't be read",
    0x23: "the program is damaged or of another version",
    0x24: "the external data do not belong to the program",
    0x25: "out of resources",
    0x30: "a delegate refuses its blob",
    0x31: "a delegate is out of memory",
    0x32: "a delegate failed",
}


@cache
def _library() -> Any:
    try:
        import torch  # noqa: F401  (loads the libraries that the next import links to)

        return import_module("executorch.extension.pybindings._C")
    except ImportError as error:
        raise ProgramError(
            f"running a program needs torch and executorch ({error}); pip install 'modelbuild[models]' brings them"
        ) from None


def load_module(path: Path, data: Path | None) -> Any:
    """Load a program file and its external data as ExecuTorch's module. Raises ProgramError."""
    try:
        return _library()._load_for_executorch(str(path), None if data is None else str(data))
    except RuntimeError as error:
        raise ProgramError(f"{path}: could not be loaded: {_reason(error)}") from None


class SharingModule:
    """A program whose methods have one state, with the run_method of ExecuTorch's module. Methods that _load_program
    loads have common memory. All are loaded at once, since loading a method sets its initial state."""

    def __init__(self, program: Any) -> None:
        self._program = program  # must outlive its methods
        names = [program.get_method_name(index) for index in range(program.num_methods())]
        self._methods = {name: program.load_method(name) for name in names}

    def run_method(self, name: str, inputs: Sequence[Any], clone: bool) -> list[Any]:
        outputs: list[Any] = self._methods[name].call(inputs, clone)
        return outputs


def load_sharing_module(path: Path) -> SharingModule:
    """Load a program whose methods have one state. Raises ProgramError."""
    try:
        return SharingModule(_library()._load_program(str(path)))
    except RuntimeError as error:
        raise ProgramError(f"{path}: could not be loaded: {_reason(error)}") from None


def lacking_backends(method: MethodDescription) -> list[str]:
    """Return the backends that a method needs and this runtime lacks."""
    have = set(_library()._get_registered_backend_names())
    return list(dict.fromkeys(backend for backend, _, _ in method.delegates if backend not in have))


def lacking_kernels(method: MethodDescription) -> list[str]:
    """Return the kernels that a method needs and this runtime lacks."""
    have = set(_library()._get_operator_names())
    return [name for name, _ in method.operators if name not in have]


def _without(absent: Sequence[str], libraries: Sequence[KernelLibrary]) -> str:
    """Return a message about missing kernels, with the libraries that have them."""
    owners = [library for library in libraries if set(absent).intersection(library.operators)]
    if not owners:
        return f"this runtime has no kernel for {', '.join(absent)}"
    return (
        f"needs {', '.join(map(str, owners))}, which ExecuTorch's Python runtime lacks; the C++ runtime loads"
        " it: install the wheel of modelbuild-runtime, or name a folder of `make runtime` in MODELBUILD_RUNTIME"
    )


def check_supported(path: str, method: MethodDescription, libraries: Sequence[KernelLibrary] = ()) -> None:
    """Raise ProgramError with the backends, or else kernels, that the method needs and this runtime lacks. `libraries`
    are the kernel libraries in the program's manifest."""
    library = _library()
    have = set(library._get_registered_backend_names())
    lacking = lacking_backends(method)
    if lacking:
        raise ProgramError(
            f"{path}: needs the backend {', '.join(lacking)}, which this runtime lacks"
            f" (it has {', '.join(sorted(have))}); the C++ runtime, which MODELBUILD_RUNTIME names, has those for GPUs"
        )
    if absent := lacking_kernels(method):
        raise ProgramError(f"{path}: {_without(absent, libraries)}")


def to_tensor(array: np.ndarray, port: Port) -> Any:
    """Return a torch tensor with the array's values, the port's type, and the memory layout that the program expects.

    The tensor is a copy, since a program may write to its inputs.
    """
    import torch

    order = port.dim_order or tuple(range(array.ndim))
    inner = torch.from_numpy(np.array(array.transpose(order), order="C", copy=True))
    back = [order.index(axis) for axis in range(array.ndim)]
    tensor = inner.permute(back) if back else inner
    return tensor.to(torch.bfloat16) if port.dtype == "bfloat16" else tensor


def to_array(value: Any) -> np.ndarray:
    """Return a runtime's output as a numpy array; bfloat16 as float32, which represents each value exactly."""
    import torch

    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    tensor = value.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()
    return np.ascontiguousarray(tensor.numpy()).reshape(tuple(tensor.shape))


def execute(module: Any, method: str, inputs: Sequence[Any], path: str, clone: bool = True) -> list[Any]:
    """Run a method and return its outputs; with `clone` they are copies outside the runtime's memory."""
    try:
        outputs: list[Any] = module.run_method(method, tuple(inputs), clone)
    except RuntimeError as error:
        raise ProgramError(f"{path}: method '{method}' failed: {_reason(error)}") from None
    return outputs


def _reason(error: RuntimeError) -> str:
    text = str(error).strip()
    code = re.search(r"error: ?0x:?([0-9a-fA-F]+)", text)
    name = _ERRORS.get(int(code[1], 16)) if code else None
    return f"{name} ({text})" if name else text
