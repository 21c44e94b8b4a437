"""The query language: parsed expressions, and the columns of errors."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelbuild.errors import UsageError
from modelbuild.query.expression import Binary, FunctionCall, Word, Words, parse_expression
from modelbuild.query.output import render


def shape(expression: object) -> object:
    match expression:
        case Word(text=text):
            return text
        case FunctionCall(function=function, arguments=arguments):
            return (function, *map(shape, arguments))
        case Binary(operator=operator, left=left, right=right):
            return [operator, shape(left), shape(right)]
        case Words(words=words):
            return {shape(word) for word in words}
    raise AssertionError(expression)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("//a/...", "//a/..."),
        (":x", ":x"),
        ("deps(//a:b)", ("deps", "//a:b")),
        ("deps(//a, 2)", ("deps", "//a", "2")),
        ("a + b - c", ["except", ["union", "a", "b"], "c"]),
        ("a - (b ^ c)", ["except", "a", ["intersect", "b", "c"]]),
        ("a union b except c intersect d", ["intersect", ["except", ["union", "a", "b"], "c"], "d"]),
        ("a-b", "a-b"),
        ("set(//a //b:c)", {"//a", "//b:c"}),
        ("set()", set()),
        ('kind("pte_.* rule", //...)', ("kind", "pte_.* rule", "//...")),
        ("filter('let', \"union\")", ("filter", "let", "union")),
        ("x[1]", "x[1]"),
    ],
)
def test_expressions(text: str, expected: object) -> None:
    assert shape(parse_expression(text)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1: expected a target pattern, a function or '(', got the end"),
        ("deps(//a", "column 9: expected ',', got the end"),
        ("deps()", "column 6: expected a target pattern, a function or '(', got ')'"),
        ("//a //b", "column 5: expected an operator or the end, got '//b'"),
        ("//a +", "column 6: expected a target pattern, a function or '(', got the end"),
        ("set(a, b)", "column 6: expected a target pattern or ')', got ','"),
        ("kind('a, //b)", "column 6: expected a closing quote, got '''"),
        ("a & b", "column 3: no such character outside quotes: '&'"),
    ],
)
def test_mistakes_have_a_column(text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_expression(text)
    assert str(error.value) == f"query, {message}"


@given(st.text(alphabet="ab/:().,+-^=$' \"", max_size=30))
def test_any_text_parses_or_is_a_usage_error(text: str) -> None:
    with suppress(UsageError):
        parse_expression(text)


def test_names_in_a_graph_for_graphviz_are_quoted() -> None:
    names = ['//a:b".c', "//a:\\n", "//a:é"]
    lines = render(names, "dot", lambda node: names[:1], lambda node: {})
    assert lines[2:5] == ['  "//a:\\\\n";', '  "//a:b\\".c";', '  "//a:é";']
