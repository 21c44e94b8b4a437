"""Run a .pte from Python: `load(path).run(inputs)`. Arrays are numpy's, or tensors with DLPack."""

from modelbuild_runtime.describe import Description, MethodDescription, Port
from modelbuild_runtime.errors import InputError, ProgramError
from modelbuild_runtime.latency import Latency
from modelbuild_runtime.load import load, read_description
from modelbuild_runtime.program import Program
from modelbuild_runtime.shapes import Dim

__version__ = "0.1.0"

__all__ = [
    "Description",
    "Dim",
    "InputError",
    "Latency",
    "MethodDescription",
    "Port",
    "Program",
    "ProgramError",
    "load",
    "read_description",
]
