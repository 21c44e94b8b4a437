"""The attribute `call` of a model."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import strategies as st

from modelbuild_rules.model.call import parse_call
from tests.hostile import cases, run_property


@pytest.mark.parametrize(
    ("text", "args", "kwargs"),
    [
        ("a", [{"input": "a"}], {}),
        ("(a, 1), mode='fast'", [{"tuple": [{"input": "a"}, {"constant": 1}]}], {"mode": {"constant": "fast"}}),
        ("[a], scale=-0.5,", [{"list": [{"input": "a"}]}], {"scale": {"constant": -0.5}}),
        ("{'x': a, 2: None}", [{"dict": [["x", {"input": "a"}], [2, {"constant": None}]]}], {}),
        ("flag=True,\n  a=a  # the image", [], {"flag": {"constant": True}, "a": {"input": "a"}}),
        ("a, -9223372036854775808", [{"input": "a"}, {"constant": -(2**63)}], {}),
    ],
)
def test_names_are_inputs_and_everything_else_is_constant(text: str, args: Any, kwargs: Any) -> None:
    assert parse_call(text, ["a"]) == {"args": args, "kwargs": kwargs}


def test_equal_calls_are_equal_however_they_are_written() -> None:
    assert parse_call("a,b=(1,),c='x'", ["a"]) == parse_call(' a, b = (1, ), c = "x" ', ["a"])


@pytest.mark.parametrize(
    "text",
    [
        *("*a", "**a", "a.b", "a[0]", "a + 1", "-a", "-True", "f'{a}'", "a, 1e999", "a, 1j", "a, ...", "lambda: a"),
        *("a; a", "a, b'x'", "{**a}", "{a: 1}", "{1.5: a}", "a, 9223372036854775808", "a\0", "a, b=1, b=2"),
        *("(" * 500 + "a" + ")" * 500, "x" * 20_000, "a, '\\ud800'"),
    ],
)
def test_other_expressions_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        parse_call(text, ["a"])


_PIECES = st.sampled_from(
    [*"()[]{}:,=*-+.'\"\\#\n ", "a", "b", "None", "1e999", "0x", "lambda", "f'{", "\0", "é", "\ud800"]
)


@cases(200, 20_000)
def test_any_text_is_a_call_or_refused(examples: int) -> None:
    def holds(text: str) -> None:
        with suppress(ValueError):
            found = parse_call(text, ["a", "b"])
            assert json.loads(json.dumps(found, allow_nan=False, ensure_ascii=False).encode()) == found

    run_property(examples, st.lists(_PIECES, max_size=12).map("".join) | st.text(), holds)
