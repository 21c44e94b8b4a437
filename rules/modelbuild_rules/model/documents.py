"""The JSON documents of a model, as types.

For type checkers only: import it under `if TYPE_CHECKING`, which leaves it out of every step's key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from modelbuild_rules.kernels.documents import GivenLibrary


class DynamicDimension(TypedDict):
    """A dimension of variable size: its least and greatest size, and its size in the example inputs (None: the
    default)."""

    min: int
    max: int
    example: int | None

    auto: NotRequired[bool]
    """True if torch.export finds that it is constant, or how it depends on other dimensions."""

    terms: NotRequired[Mapping[str, int]]
    """For a dimension that is a sum of others: the factor of each."""

    plus: NotRequired[int]
    """The constant part of the sum."""


class DeclaredInput(TypedDict):
    """An input as BUILD.toml declares it. An input with an example file has neither `dtype` nor `range`, and may have
    no `shape`."""

    name: str

    shape: list[int | str] | None
    """Sizes, and names of dynamic dimensions."""

    dtype: str | None
    """As torch names it: "float32"."""

    range: tuple[float, float] | None
    """Lowest and highest value; None for 0 and 1."""


class Call(TypedDict):
    """The arguments of `forward`. Each is {"input": name}, {"constant": value}, {"tuple": [...]}, {"list": [...]} or
    {"dict": [[key, argument], ...]}."""

    args: Sequence[Mapping[str, Any]]
    kwargs: Mapping[str, Mapping[str, Any]]


class ModelParams(TypedDict):
    """The parameters of a step that makes a model."""

    entry: str | None
    """`path/in/workspace.py:name` of the class or function that returns the module; None for the file `archive`."""

    kwargs: Mapping[str, Any]
    """The entry's arguments."""

    prepare: str | None
    """`path/in/workspace.py:name` of the function that prepares the module; None if there is none."""

    weights: Sequence[str]
    """Prefixes of state dicts, which are the inputs `weights.<prefix>`; '' is the whole module."""

    allow_missing: bool
    """True if parameters may keep their initial values."""

    inputs: Sequence[DeclaredInput]
    """In the program's order."""

    call: Call | None
    """The arguments of `forward`; None for the inputs, by position."""

    dynamic: Mapping[str, DynamicDimension]
    """By name."""

    outputs: Sequence[str] | None
    """Names of the outputs, in order; None if not declared."""

    seed: int
    """Seed of torch, random and numpy.random, and of the example inputs."""

    kernels: NotRequired[Sequence[GivenLibrary]]
    """Libraries of operators that the model calls."""

    method: str
    """Name of the called method of the module."""


class PartTensor(TypedDict):
    """An input or output of a module that was compiled elsewhere."""

    name: str
    dtype: str
    shape: list[int | str]
    """Sizes, and names of dynamic dimensions."""


class PartInterface(TypedDict):
    """A module that was compiled elsewhere, as a program contains it."""

    id: str
    """Distinguishes the modules of one program."""

    name: str
    """The label, for messages."""

    inputs: list[PartTensor]
    outputs: list[PartTensor]


class PartParams(ModelParams):
    """The export parameters of a model with modules that were compiled elsewhere."""

    parts: Mapping[str, PartInterface]
    """By the submodules that the modules replace; '' is the whole module."""


class SizeRange(TypedDict):
    """The least and the greatest size of a dynamic dimension, and its dependence on others as in DynamicDimension."""

    min: int
    max: int
    terms: NotRequired[Mapping[str, int]]
    plus: NotRequired[int]


class SignatureOutput(TypedDict):
    """An output in signature.json."""

    name: str
    """For an output inside containers: keys, fields and positions, joined by dots."""

    dtype: str
    """As torch names it: "float32". For an output that is not a tensor: "int", "float", "bool" or another type."""

    shape: Sequence[int | str]
    """Sizes, and expressions of dynamic dimensions: "2*batch"."""


class SignatureInput(SignatureOutput):
    """An input in signature.json."""

    dynamic: Mapping[str, SizeRange]
    """The dimensions that `shape` names, and the dimensions that these depend on."""

    range: tuple[float, float] | None
    """Lowest and highest value, as declared."""


class MethodSignature(TypedDict):
    """A method's inputs and outputs, in order."""

    inputs: Sequence[SignatureInput]
    outputs: Sequence[SignatureOutput]


class Signature(TypedDict):
    """signature.json: the inputs and outputs of a program's methods, or of a model's exported method."""

    version: int
    methods: Mapping[str, MethodSignature]


class SourcePlace(TypedDict, total=False):
    """An entry of debug.json: the place of a node of the exported program, as far as known."""

    module: str
    """Qualified name of the innermost module."""

    source: str
    """The innermost line of the model's own source, as `net.py:12`."""


class Comparison(TypedDict):
    """The limits of a comparison of a program's outputs with its module's."""

    operators: int
    precision: str
    """The coarsest floating-point type in which it computes: "float16"."""

    quantized: bool
    choices: Sequence[bool]
    """For each output, whether it depends on an operator with a discontinuous result, such as argmax."""


class RecordedCalls(TypedDict):
    """calls.json: calls of a module, whose tensors are in the file next to it."""

    version: int
    calls: Sequence[str]
    """Their names, such as "the example inputs"; empty if `random`."""

    random: bool
    """True if the module's outputs vary from call to call."""

    inputs: int
    outputs: int
    comparison: Comparison


Debug = Mapping[str, SourcePlace]
"""debug.json: places by node name."""


class ResultMetricParams(TypedDict):
    """A number computed from a result and the expected result."""

    entry: str
    """`path:name` of a function; '' for the agreement of an output's largest elements."""

    top: int
    """Number of largest elements of each row; 0 with a function."""

    output: str
