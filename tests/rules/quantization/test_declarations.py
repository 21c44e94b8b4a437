"""Errors of datasets, recipes and quantized models before any work, and of generators of samples."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelbuild.errors import LoadingError
from modelbuild.rule_runner import RuleRunner
from modelbuild.step import Step, StepError
from modelbuild_rules.quantization.steps import generate

MODEL = """
[[torch_model]]
name = "net"
entry = "net.py:Net"
inputs = [{ name = "image", shape = [1], dtype = "float32" }]
[[dataset]]
name = "data"
files = { image = ["a.npy"] }
[[backend_stack]]
name = "stack"
backends = [{ type = "xnnpack", precisions = ["fp32"] }, "portable"]
[[backend_stack]]
name = "other"
backends = ["portable"]
"""
RECIPE = '[[quantization_recipe]]\nname = "recipe"\nquantizers = [{ type = "xnnpack"'
QUANTIZED = '[[quantized_model]]\nname = "int8"\nmodel = ":net"\nrecipe = ":recipe"\n'
DATA = 'calibration = ":data"\n'
PROGRAM = '[[pte_program]]\nname = "program"\nmodel = ":int8"\nstack = '


@pytest.fixture
def error(tmp_path: Path) -> Callable[[str, str], str]:
    """Return a function that analyses a target of a BUILD file that must be refused, and returns the reason."""

    def find(text: str, target: str) -> str:
        files = dict.fromkeys(("net.py", "a.npy", "b.npy", "a.txt"), "")
        with pytest.raises(LoadingError) as found:
            RuleRunner(tmp_path, {**files, "BUILD.toml": text}).target(f"//:{target}")
        assert "\n" not in str(found.value)
        return str(found.value)

    return find


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ("", "1:1: expected one of 'files', 'archives' and 'entry'"),
        ('archives = ["a.npy"]', "3:13: 'a.npy': expected a file ending in .npz or .safetensors"),
        ('files = { x = ["a.npy"], y = [] }', "3:1: expected as many files of each name, got 1 of 'x', 0 of 'y'"),
        ("files = { x = [] }", "3:1: no files; expected one or more"),
        (
            'files = { x = ["a.npy"] }\nkwargs = { n = 1 }',
            "4:1: 'kwargs' is for a function; expected 'entry' as well",
        ),
        ('generator = "net.py:f"', "3:1: unknown attribute 'generator' of dataset 'data'; expected 'entry'"),
        ('entry = "net.py"', "3:1: attribute 'entry': expected 'file.py:name', got 'net.py'"),
        (
            'entry = "nett.py:f"',
            "3:1: no file 'nett.py' in //; did you mean 'net.py'?",
        ),
    ],
)
def test_datasets(error: Callable[[str, str], str], attributes: str, message: str) -> None:
    assert error(f'[[dataset]]\nname = "data"\n{attributes}\n', "data") == f"BUILD.toml:{message}"


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            ', mode = "dynamic", per_channel = false',
            "no linear layers with dynamic ranges and one scale; expected true",
        ),
        (', weights = "int4"', 'int4 weights with dynamic ranges only; expected mode = "dynamic" as well'),
        (", group_size = 32", 'groups of int4 weights only; expected weights = "int4" as well'),
        (', mode = "dynamic", observer = "min_max"', "not observed; expected mode = \"static\", or no 'observer'"),
        (
            ', mode = "dynamic", operators = ["aten.add.Tensor"]',
            "are for aten.conv1d.default, aten.conv2d.default, aten.conv_transpose2d.input, aten.linear.default only,"
            " not aten.add.Tensor",
        ),
    ],
)
def test_recipes(error: Callable[[str, str], str], attributes: str, message: str) -> None:
    found = error(f"{RECIPE}{attributes} }}]\n", "recipe")
    assert found.startswith("BUILD.toml:3:")
    assert found.endswith(message)


FLOAT8 = '[[quantization_recipe]]\nname = "recipe"\nquantizers = [{ type = "tensorrt", dtype = "float8_e4m3fn"'


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (', observer = "histogram"', "ranges of float8_e4m3fn go up to the greatest value; expected no 'observer'"),
        (
            ', operators = ["aten.linear.default", "aten.conv2d.default"]',
            'TensorRT has no convolutions of float8_e4m3fn; expected aten.linear.default, or dtype = "int8"',
        ),
    ],
)
def test_float8_of_a_recipe_for_tensorrt(error: Callable[[str, str], str], attributes: str, message: str) -> None:
    found = error(f"{FLOAT8}{attributes} }}]\n", "recipe")
    assert found.startswith("BUILD.toml:3:")
    assert found.endswith(message)


@pytest.mark.parametrize("methods", [False, True])
def test_a_device_without_float8(error: Callable[[str, str], str], methods: bool) -> None:
    model = 'model = { forward = ":int8" }' if methods else 'model = ":int8"'
    stack = '[[backend_stack]]\nname = "rtx"\nbackends = ["tensorrt", "portable"]\n'
    device = '[[device_target]]\nname = "old"\narch = "x86_64"\ncompute_capabilities = ["12.0", "8.6"]\n'
    program = f'[[pte_program]]\nname = "program"\nstack = ":rtx"\ndevice = ":old"\n{model}\n'
    text = f"{MODEL}{FLOAT8} }}]\n{QUANTIZED}{DATA}{stack}{device}{program}"
    line = text.count("\n")
    assert error(text, "program") == (
        f"BUILD.toml:{line}:{model.index('forward') + 1 if methods else 1}: the recipe's float8_e4m3fn needs compute"
        ' capability 8.9 or above, not 8.6; expected another device, or dtype = "int8" in the recipe (device //:old,'
        " model :int8)"
    )


def test_a_recipe_for_cuda(error: Callable[[str, str], str]) -> None:
    recipe = '[[quantization_recipe]]\nname = "recipe"\nquantizers = [{ type = "cuda"'
    found = error(f"{recipe}, group_size = 32 }}]\n", "recipe")
    assert found.startswith("BUILD.toml:3:")
    assert found.endswith('int8 weights have a scale for each channel; expected weights = "int4" as well')
    found = error(f'{MODEL}{recipe} }}]\n{QUANTIZED}{PROGRAM}":stack"\n', "program")
    line = f"{MODEL}{recipe} }}]\n{QUANTIZED}{PROGRAM}".count("\n") + 1
    assert found == (
        f"BUILD.toml:{line}:1: the model does not fit the stack: its recipe is for cuda, which is not in the stack;"
        " expected a stack for the recipe of :int8"
    )


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        (
            QUANTIZED,
            "int8",
            "':recipe' observes the ranges of activations; expected 'calibration', a dataset",
        ),
        (
            QUANTIZED + DATA.replace(":data", ":net"),
            "int8",
            "':net' is a torch_model; expected a target of dataset",
        ),
        (
            (QUANTIZED + DATA).replace(":net", ":twice").replace('"int8"', '"again"')
            + (QUANTIZED + DATA).replace('"int8"', '"twice"'),
            "again",
            "':twice' is quantized already; expected a model in floating point",
        ),
        (
            QUANTIZED + DATA + PROGRAM + '":other"\n',
            "program",
            "the model does not fit the stack: its recipe is for xnnpack, which is not in the stack; expected a stack"
            " for the recipe of :int8",
        ),
        (
            QUANTIZED + DATA + PROGRAM + '":stack"\n',
            "program",
            "the model does not fit the stack: its recipe has static ranges, and 'static_quant' is not among the"
            " precisions of xnnpack; expected a stack for the recipe of :int8",
        ),
        (
            '[[dataset]]\nname = "wrong"\nfiles = { imag = ["a.npy"] }\n' + QUANTIZED + DATA.replace("data", "wrong"),
            "int8",
            "':wrong' has no files of the input 'image'; did you mean 'imag'?",
        ),
    ],
)
def test_models_and_stacks(error: Callable[[str, str], str], text: str, target: str, message: str) -> None:
    assert error(f"{MODEL}{RECIPE} }}]\n{text}", target).split(": ", 1)[1] == message


def generated(tmp_path: Path, source: str, most: int | None = None, **kwargs: Any) -> list[dict[str, Any]]:
    from safetensors.numpy import load_file

    (tmp_path / "samples.py").write_text(f"import numpy as np\nimport torch\n{source}")
    out = tmp_path / "out"
    out.mkdir()
    params = {"entry": "samples.py:samples", "kwargs": kwargs, "max_samples": most, "seed": 3}
    try:
        generate.run(Step(params, {"srcs": (tmp_path / "samples.py",)}, {"samples": out}, tmp_path))
    finally:
        sys.path[:] = [each for each in sys.path if each != str(tmp_path)]
        sys.modules.pop("samples", None)
    return [load_file(out / f"{number}.safetensors") for number in range(len(list(out.iterdir())))]


def test_a_generator_ends_after_the_most_samples(tmp_path: Path) -> None:
    source = """
def samples(size):
    while True:
        yield {"x": torch.rand(size)[1:], "label": np.int64(3)}
"""
    found = generated(tmp_path, source, 5, size=4)
    assert len(found) == 5
    assert found[0]["x"].shape == (3,)
    assert found[0]["label"] == 3
    assert not np.array_equal(found[0]["x"], found[1]["x"])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def samples(): return []", "samples.py:samples yields no sample; expected one or more"),
        ("def samples(): return 3", "samples.py:samples returns a int; expected a function that yields samples"),
        ("samples = 3", "samples.py:samples is a int; expected a function that yields samples"),
        ("def sample(): pass", "samples.py has no 'samples'; did you mean 'sample'?"),
        (
            "def samples(n): yield {}",
            "samples.py:samples, called with no kwargs: missing a required argument: 'n'",
        ),
        (
            "def samples(): yield 3",
            "sample 1 of samples.py:samples is a int; expected a table of arrays, with names of inputs",
        ),
        ("def samples(): yield {'x': 'text'}", "'x' of sample 1 of samples.py:samples is a str; expected an array of"),
    ],
)
def test_generators(tmp_path: Path, source: str, message: str) -> None:
    with pytest.raises(StepError) as found:
        generated(tmp_path, source)
    assert str(found.value).startswith(message)


SEVERAL = """
[[torch_model]]
name = "several"
entry = "net.py:Net"
methods = { embed = { inputs = [{ name = "image", shape = [1], dtype = "float32" }], outputs = ["vector"] } }
[[quantized_model]]
name = "int8"
model = ":several"
recipe = { type = "xnnpack", mode = "dynamic" }
"""


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ('[{ entry = "net.py:near" }]', "10:1: ':several' has methods; expected a table with metrics of each"),
        ("{ embeds = [] }", "10:13: ':several' has no method 'embeds'; did you mean 'embed'?"),
        (
            '{ embed = [{ top = 1, output = "vectors" }] }',
            "10:33: the model has no output 'vectors'; did you mean 'vector'?",
        ),
        ("{ embed = [{ top = 1 }] }", "10:22: attribute 'metrics.embed[0]': expected 'top' and 'output' together"),
    ],
)
def test_metrics_of_methods(error: Callable[[str, str], str], metrics: str, message: str) -> None:
    assert error(f"{SEVERAL}metrics = {metrics}\n", "int8") == f"BUILD.toml:{message}"
