"""Run a .pte from Python: `load(path).run(inputs)`. Arrays are numpy's; the first run imports torch."""

from modelbuild_runtime.describe import Description, MethodDescription, Port
from modelbuild_runtime.errors import InputError, ProgramError
from modelbuild_runtime.latency import Latency
from modelbuild_runtime.load import load, load_with_executorch
from modelbuild_runtime.native.program import NativeProgram
from modelbuild_runtime.program import Program
from modelbuild_runtime.shapes import Dim

__version__ = "0.1.0"

__all__ = [
    "Description",
    "Dim",
    "InputError",
    "Latency",
    "MethodDescription",
    "NativeProgram",
    "Port",
    "Program",
    "ProgramError",
    "load",
    "load_with_executorch",
]
