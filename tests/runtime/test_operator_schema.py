"""The arguments of operators in the runtime are those of the schemas in the installed packages."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def generator(repository: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("operator_schema", repository / "tools/operator_schema.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_file_is_current_and_has_all_own_operators(generator: ModuleType) -> None:
    from modelbuild_rules.kernels.steps.builtin import OPERATORS

    text = generator.CPP.read_text()
    assert generator.cpp_header() == text, "run python tools/operator_schema.py"
    assert [name for name in OPERATORS if f'"{name}"' not in text] == []


@pytest.mark.parametrize(
    ("schema", "letters"),
    [
        ("a::b.out(Tensor self, Tensor? other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)", "TtSWK"),
        ("a::index.out(Tensor self, Tensor?[] at, SymInt[2] size=[], *, Tensor(a!) out) -> Tensor(a!)", "TPLWK"),
        ("a::split.out(Tensor x, int[1]? dim, bool? deep, float[]? scales, *, Tensor(a!)[] out) -> ()", "TlbfYK"),
        ("a::put_(Tensor(a!) self, Tensor[] all, str mode, float? value, bool[3] mask) -> Tensor(a!)", "WANdOK"),
        ("a::close(Tensor self, ScalarType? dtype=None) -> bool", "TiR"),
    ],
)
def test_letters_of_a_schema(generator: ModuleType, schema: str, letters: str) -> None:
    assert generator.signature(schema) == letters
