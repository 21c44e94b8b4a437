"""Values that no step accepts are errors at their declaration."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modelbuild.errors import LoadingError
from modelbuild.rule_runner import AnalysedTarget, RuleRunner
from tests.every_rule import PACKAGE, write_files
from tests.hostile import document

Declare = Callable[[str, dict[str, Any]], AnalysedTarget]


@pytest.fixture
def declare(tmp_path: Path) -> Declare:
    """Analyses a target of the workspace with other attributes; None takes one away."""
    write_files(tmp_path)

    def declared(name: str, attributes: dict[str, Any]) -> AnalysedTarget:
        tables = copy.deepcopy(PACKAGE)
        (target,) = (t for kind, targets in tables.items() if kind != "package" for t in targets if t["name"] == name)
        target.update(attributes)
        for key in [key for key, value in target.items() if value is None]:
            del target[key]
        return RuleRunner(tmp_path, {"BUILD.toml": document(tables)}, device="//:cpu").target(f"//:{name}")

    return declared


INPUT = {"name": "x", "shape": ["n", 2], "dtype": "float32"}
DRAWN = {"seed": 1}
SIZED = {"n": {"min": 1, "opt": 2, "max": 8}}
ENGINE_INPUT = {"name": "x", "shape": ["n", 2], "dtype": "float32"}
OUTPUT = {"name": "y", "shape": ["n", 2], "dtype": "float32"}


@pytest.mark.parametrize(
    ("name", "attributes", "message"),
    [
        (
            "model",
            {"inputs": [{**INPUT, "dtype": "int8", "range": [0, 200]}]},
            "input 'x': int8 ranges from -128 to 127;",
        ),
        (
            "model",
            {"inputs": [{**INPUT, "dtype": "uint8", "range": [-1, 2]}]},
            "input 'x': uint8 ranges from 0 to 255;",
        ),
        ("model", {"dynamic": {"n": {"min": 3, "max": 3}}}, "dimension 'n' is always 3; expected a number in 'shape'"),
        ("model", {"dynamic": {"a b": {"min": 1, "max": 3}}}, "dimension 'a b': expected a name of letters, digits"),
        ("model", {"requires": ["numpy==2"]}, "attribute 'requires[0]': 'numpy==2' is not a distribution's name"),
        ("py_test", {"requires": [""]}, "attribute 'requires[0]': '' is not a distribution's name; expected a name"),
        ("py_test", {"timeout": 2**62}, "attribute 'timeout': expected a duration from 1 s to 1000000 s, got 46116"),
        ("gpu", {"memory": "9" * 400 + "GiB"}, "attribute 'memory': expected a size such as"),
        ("gpu", {"memory": "9" * 18 + "TiB"}, "attribute 'memory': expected a size from 1 byte to 8 EiB, got '9999"),
        (
            "gpu",
            {"compute_capabilities": ["٨.٦"]},
            "attribute 'compute_capabilities[0]': '٨.٦' is not a compute capability",
        ),
        ("gpu", {"gpu": 128}, "attribute 'gpu': expected less than or equal to 127, got 128"),
        ("web", {"filename": "a\nb"}, "attribute 'filename': 'a\nb' is not a file name; expected one without folders"),
        ("web", {"filename": "é" * 128}, "attribute 'filename': 'éééé"),
        ("pypi", {"path": "x/a\nb"}, "'x/a\nb' cannot be the path; expected a file's path inside the wheel"),
        ("pypi", {"wheel": "x-1\0-py3-none-any.whl"}, "'x-1\0-py3-none-any.whl' cannot be the wheel; expected NAME"),
        ("pte_test", {"cases": [{"name": "c", "files": {"x": "y.npy"}}]}, "case 'c': no file for the input 'y'"),
        ("pte_test", {"cases": [{"name": "c", "generator": {"seed": -1}}]}, "attribute 'cases[0].generator.seed':"),
        (
            "pte_test",
            {"cases": [{"name": "c", "generator": {**DRAWN, "std": -1.0}}]},
            "attribute 'cases[0].generator",
        ),
        (
            "pte_test",
            {"cases": [{"name": "c", "generator": {**DRAWN, "range": [1, 0]}}]},
            "expected [lowest, highest], got [1.0, 0.0]",
        ),
        (
            "engine",
            {"inputs": [ENGINE_INPUT], "profiles": []},
            "no profile has the dimension 'n'; expected a dimension of 'profiles'",
        ),
        ("engine", {"profiles": [{"n": {"min": 3, "opt": 2, "max": 8}}]}, "dimension 'n': expected min <= opt <= max"),
        (
            "engine",
            {"profiles": [{"n": {"min": 2, "opt": 2, "max": 2}}]},
            "dimension 'n' is always 2; expected a number",
        ),
        ("engine", {"profiles": [SIZED, {"m": SIZED["n"]}]}, "expected the dimensions of the first profile: n"),
        ("engine", {"profiles": [{**SIZED, "m": SIZED["n"]}]}, "no input has the dimension 'm'"),
        ("engine", {"outputs": [{**OUTPUT, "shape": ["m"]}]}, "no profile has the dimension 'm'"),
        ("engine", {"outputs": [{**OUTPUT, "shape": [-1]}]}, "expected sizes of 0 or more, got -1"),
        ("engine", {"outputs": [OUTPUT, {**OUTPUT, "binding": "p"}]}, "expected names, each once, got 'y'"),
        ("engine", {"outputs": [{**OUTPUT, "binding": "i"}]}, "the binding 'i' is of 'x' already; expected each once"),
        ("engine", {"host_code": True, "version_compatible": False}, "only version-compatible engines contain code;"),
        ("engine", {"version": "8.6"}, "attribute 'version': "),
        ("parted", {"engines": {"m": ":group"}}, "':group' is a filegroup, which provides no CompiledModule"),
        (
            "parted",
            {"engines": {"m": ":engine"}, "model": ":engine"},
            "':engine' is compiled as a whole; expected a torch_model with submodules",
        ),
        (
            "parted",
            {"engines": {"m": ":engine"}, "device": ":cpu"},
            "the engine was built for compute capability 8.6, 8.9; the device has no compute capability",
        ),
    ],
)
def test_refuses(declare: Declare, tmp_path: Path, name: str, attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(LoadingError) as caught:
        declare(name, attributes)
    assert caught.value.message.startswith(message)
    assert caught.value.location is not None
    written = (tmp_path / "BUILD.toml").read_text().splitlines()[caught.value.location.line - 1]
    assert written.startswith(f'"{next(iter(attributes))}" = ')


def test_a_web_address_that_ends_in_a_line_break_names_no_file(declare: Declare) -> None:
    with pytest.raises(LoadingError, match="does not end in a file name; expected the attribute 'filename'"):
        declare("web", {"urls": ["https://host.example/a%0Ab"], "filename": None})


def test_a_program_without_a_stack_is_refused_unless_its_model_was_compiled_elsewhere(declare: Declare) -> None:
    with pytest.raises(LoadingError, match="no backends are given; expected a list of some of"):
        declare("parted", {"stack": None})
    declare("parted", {"engines": None, "model": ":engine", "stack": None})


NET = """
[[pte_program]]
name = "net"
model = "//:model"
stack = "//:small"
device = "//:cpu"
visibility = ["//visibility:public"]
"""


def test_a_bundle_calls_a_program_by_its_name_however_its_label_is_written(declare: Declare, tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net/BUILD.toml").write_text(NET)
    for label in ("//net", "//net:net"):
        action = declare("bundle", {"program": label}).actions["bundle"]
        assert action.params["programs"] == ["net"]
