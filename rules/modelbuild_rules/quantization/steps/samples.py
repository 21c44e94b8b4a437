"""Read the samples of a dataset as arrays, for the inputs of a program.

Inputs of a step that reads samples: sample.<name> (files), samples.archives or samples.generated, which
quantization/samples.py declares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from modelbuild.errors import did_you_mean
from modelbuild.step import Step, StepError
from modelbuild_runtime.describe import Port
from modelbuild_runtime.dtypes import numpy_type
from modelbuild_runtime.errors import InputError
from modelbuild_runtime.files.signature import Named, read_signatures
from modelbuild_runtime.inputs import read_input
from modelbuild_runtime.shapes import Dim, fits, shape_text

_FILES = "sample."

Arrays = Mapping[str, np.ndarray]


def signature_ports(signature: Path) -> list[Port]:
    """Return the inputs that the signature of a model's method declares."""
    (method,) = read_signatures(signature).values()
    return [
        Port(each.name, "tensor", each.dtype, tuple(_dim(size, each) for size in each.shape), range=each.range)
        for each in method.inputs
    ]


def _dim(size: int | str, declared: Named) -> Dim:
    return Dim.fixed(size) if isinstance(size, int) else declared.dynamic[size]


def count_samples(step: Step) -> int:
    """Return the number of samples."""
    if "samples.generated" in step.inputs:
        return sum(1 for _ in step.input("samples.generated").iterdir())
    files = [paths for name, paths in step.inputs.items() if name.startswith((_FILES, "samples.archives"))]
    return len(files[0])


def read_samples(step: Step, ports: Sequence[Port]) -> Iterator[dict[str, np.ndarray]]:
    """Yield the arrays of each sample: the inputs, and others such as labels. Raises StepError for a sample without an
    input, and for an array that does not fit."""
    for number in range(count_samples(step)):
        try:
            yield _sample(step, ports, number)
        except InputError as error:
            raise StepError(f"sample {number + 1}: {error}") from None


def _sample(step: Step, ports: Sequence[Port], number: int) -> dict[str, np.ndarray]:
    by_name = {port.name: port for port in ports}
    files = {name.removeprefix(_FILES): paths[number] for name, paths in step.inputs.items() if name.startswith(_FILES)}
    if files:
        _check_names(files, ports)
        return {
            name: read_input(by_name[name], path) if name in by_name else _other(name, path)
            for name, path in files.items()
        }
    if "samples.archives" in step.inputs:
        arrays = _archive(step.inputs["samples.archives"][number])
    else:
        arrays = load_file(step.input("samples.generated") / f"{number}.safetensors")
    _check_names(arrays, ports)
    return arrays | {port.name: _fitting(port, arrays[port.name]) for port in ports}


def _check_names(given: Mapping[str, Any], ports: Sequence[Port]) -> None:
    for port in ports:
        if port.name not in given:
            hint = did_you_mean(port.name, given) or f"; it has {', '.join(given)}"
            raise InputError(f"no array for the input '{port.name}'{hint}")


def _archive(path: Path) -> dict[str, np.ndarray]:
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception as error:  # the parsers of numpy, zipfile and safetensors raise many types
        problem = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise InputError(f"{path.name} is not a .npz or .safetensors file: {problem}") from None


def _other(name: str, path: Path) -> np.ndarray:
    """Return an array that is not an input, such as a label."""
    try:
        if path.suffix == ".npy":
            return np.array(np.load(path, mmap_mode="r", allow_pickle=False))
        if path.suffix == ".json":
            import json

            return np.array(json.loads(path.read_bytes()))
    except ValueError as error:
        raise InputError(f"'{name}': {path.name} cannot be read: {error}") from None
    raise InputError(f"'{name}' is no input; expected .npy or .json for other arrays, got {path.name}")


def _fitting(port: Port, array: np.ndarray) -> np.ndarray:
    """Return an array as an input. Raises InputError for another type or shape."""
    wanted = numpy_type(port.dtype)
    if wanted is None:
        raise InputError(f"input '{port.name}': numpy has no type for {port.dtype}")
    if array.dtype != np.dtype(wanted):
        raise InputError(f"input '{port.name}': expected {port.dtype}, got {array.dtype}")
    if not fits(port.shape, array.shape):
        raise InputError(f"input '{port.name}': expected shape {shape_text(port.shape)}, got {list(array.shape)}")
    return np.ascontiguousarray(array)
