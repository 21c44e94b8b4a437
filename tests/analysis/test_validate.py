"""Every kind of wrong attribute is one line at the right place, with the nearest right spelling."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, field_validator

from modelbuild.analysis.validate import validate
from modelbuild.api import Attrs, Dep, Glob, Source, Sources
from modelbuild.api.attrs import Path, references
from modelbuild.errors import LoadingError, Location


class Fast(Attrs):
    type: Literal["fast"]
    level: int = 1


class Small(Attrs):
    type: Literal["small"]
    bits: int = 8


class Spec(Attrs):
    dtype: Literal["float32", "float16"] = "float32"
    shape: tuple[int | str, ...]
    file: Source | None = None


class Example(Attrs):
    srcs: Sources = ()
    stack: Dep
    ratio: float = 1.0
    inputs: tuple[Spec, ...] = ()
    modes: tuple[Annotated[Fast | Small, Field(discriminator="type")], ...] = ()
    weights: Source | dict[str, Source] | None = None
    even: int = 0
    span: tuple[float, float] = (0, 1)
    names: Annotated[tuple[Literal["a", "b"], ...], Field(min_length=1)] = ("a",)
    numbers: dict[str, int | bool] | None = None

    @field_validator("even")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError(f"expected an even number, got {value}")
        return value


def locate(path: Path) -> Location:
    return Location("BUILD.toml", 1 + len(path), 1)


def check(**raw: Any) -> Example:
    found = validate("example", "x", Example, {"stack": ":s", **raw}, locate)
    assert isinstance(found, Example)
    return found


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        ({"stak": 1}, "BUILD.toml:2:1: unknown attribute 'stak' of example 'x'; did you mean 'stack'?"),
        ({"ratio": "high"}, "BUILD.toml:2:1: attribute 'ratio': expected a number, got 'high'"),
        ({"stack": 3}, "BUILD.toml:2:1: attribute 'stack': expected a string, got 3"),
        ({"even": 3}, "BUILD.toml:2:1: attribute 'even': expected an even number, got 3"),
        ({"inputs": [{"shape": [1], "dtype": "flaot16"}]},
         "BUILD.toml:4:1: attribute 'inputs[0].dtype': expected 'float32' or 'float16', got 'flaot16'; "
         "did you mean 'float16'?"),
        ({"inputs": [{"dtype": "float16"}]},
         "BUILD.toml:4:1: 'inputs[0]' of example 'x' lacks the attribute 'shape'"),
        ({"inputs": [{"shape": [1], "shap": 2}]},
         "BUILD.toml:4:1: unknown attribute 'shap' of 'inputs[0]'; did you mean 'shape'?"),
        ({"modes": [{"type": "fats"}]},
         "BUILD.toml:3:1: attribute 'modes[0]': expected one of 'fast', 'small', got 'fats'; did you mean 'fast'?"),
        ({"modes": [{"level": 2}]}, "BUILD.toml:3:1: attribute 'modes[0]': expected a table with 'type'"),
        ({"modes": [{"type": "small", "bit": 2}]},
         "BUILD.toml:4:1: unknown attribute 'bit' of 'modes[0]'; did you mean 'bits'?"),
        ({"modes": [{"type": "small", "level": 2}]},
         "BUILD.toml:4:1: unknown attribute 'level' of 'modes[0]'; expected one of type, bits"),
        ({"span": [1, 2, 3]}, "BUILD.toml:2:1: attribute 'span': expected at most 2 items, got [1, 2, 3]"),
        ({"span": [1]}, "BUILD.toml:3:1: attribute 'span': expected more than 1 item, got [1]"),
        ({"names": []}, "BUILD.toml:2:1: attribute 'names': expected at least 1 item, got []"),
        ({"names": ["c"]}, "BUILD.toml:3:1: attribute 'names[0]': expected 'a' or 'b', got 'c'"),
        ({"numbers": {"x": "1"}},
         "BUILD.toml:3:1: attribute 'numbers.x': expected an integer or true or false, got '1'"),
        ({"numbers": {"x": {"y": 1}}},
         "BUILD.toml:3:1: attribute 'numbers.x': expected an integer or true or false, got {\"y\": 1}"),
        ({"srcs": {"glob": ["*.py"], "exclud": []}},
         "BUILD.toml:3:1: unknown attribute 'exclud' of 'srcs'; did you mean 'exclude'?"),
        ({"srcs": "a.py"}, "BUILD.toml:2:1: attribute 'srcs': expected an array, got 'a.py'"),
        ({"ratio": datetime.date(2020, 1, 1)},
         "BUILD.toml:2:1: attribute 'ratio': dates, times, inf and nan are not attribute values"),
        ({"inputs": [{"shape": [float("inf")]}]},
         "BUILD.toml:5:1: attribute 'inputs[0].shape[0]': dates, times, inf and nan are not attribute values"),
    ],
)  # fmt: skip
def test_one_line_for(raw: dict[str, Any], line: str) -> None:
    with pytest.raises(LoadingError) as error:
        check(**raw)
    assert str(error.value) == line


def test_a_missing_attribute_is_named() -> None:
    with pytest.raises(LoadingError) as error:
        validate("example", "x", Example, {}, locate)
    assert str(error.value).endswith("example 'x' lacks the attribute 'stack'")


def test_references_are_found_at_any_depth_with_their_places() -> None:
    found = check(srcs=["a.py", ":b"], inputs=[{"shape": [1], "file": "x.npy"}], weights={"net": "//w:net"})
    assert list(references(found)) == [
        (("srcs", 0), Source("a.py")),
        (("srcs", 1), Source(":b")),
        (("stack",), Dep(":s")),
        (("inputs", 0, "file"), Source("x.npy")),
        (("weights", "net"), Source("//w:net")),
    ]
    assert [type(r).__name__ for _, r in references(found)] == ["Source", "Source", "Dep", "Source", "Source"]


def test_a_glob_is_one_reference() -> None:
    assert [r for _, r in references(check(srcs={"glob": ["*.py"]}))] == [Glob(glob=("*.py",)), Dep(":s")]
