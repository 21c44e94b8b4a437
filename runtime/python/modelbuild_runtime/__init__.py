"""The Python face of what runs a .pte: `load(path).run(inputs)`. Arrays are numpy's; the first run imports torch."""

from modelbuild_runtime.describe import Description, MethodDescription, Port
from modelbuild_runtime.errors import InputError, ProgramError
from modelbuild_runtime.program import Latency, Program, load
from modelbuild_runtime.shapes import Dim

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
]
