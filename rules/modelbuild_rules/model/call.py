"""Parse the attribute `call` of a model: the arguments of its `forward`, as Python writes a call.

Names are inputs. Numbers, texts, True, False and None are constants; tuples, lists and dictionaries nest. Nothing is
evaluated.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from modelbuild.errors import did_you_mean
from modelbuild_rules.model.expressions import parse_expression

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import Call

_BIGGEST = 2**63
_EXPECTED = "expected arguments such as \"x, (a, b), mask=mask, mode='fast'\""


def parse_call(text: str, inputs: Collection[str]) -> Call:
    """Return the arguments as JSON values. Raises ValueError for text that is not arguments of a call, and for inputs
    that are unknown, unused or used twice."""
    arguments = _Arguments(inputs)
    call = _parsed(text)
    args = [arguments.value(each) for each in call.args]
    kwargs: dict[str, Any] = {}
    for each in call.keywords:
        if each.arg is None or each.arg in kwargs:
            problem = "'**' is not supported" if each.arg is None else f"'{each.arg}' is given twice"
            raise ValueError(f"{problem}; {_EXPECTED}")
        kwargs[each.arg] = arguments.value(each.value)
    for name in inputs:
        if name not in arguments.used:
            raise ValueError(f"the input '{name}' is not in the call; expected each input once")
    return {"args": args, "kwargs": kwargs}


def _parsed(text: str) -> ast.Call:
    try:
        found = parse_expression(f"forward({text}\n)")
    except ValueError as problem:
        raise ValueError(f"{problem}; {_EXPECTED}") from None
    if not isinstance(found, ast.Call) or not isinstance(found.func, ast.Name):
        raise ValueError(_EXPECTED)
    return found


class _Arguments:
    """Converts arguments, and collects the inputs in them."""

    def __init__(self, inputs: Collection[str]) -> None:
        self._inputs = inputs
        self.used: set[str] = set()

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name):
                return {"input": self._input(name)}
            case ast.Tuple(elts=items):
                return {"tuple": [self.value(each) for each in items]}
            case ast.List(elts=items):
                return {"list": [self.value(each) for each in items]}
            case ast.Dict(keys=keys, values=values):
                return {"dict": [[_key(k), self.value(v)] for k, v in zip(keys, values, strict=True)]}
        return {"constant": _constant(node)}

    def _input(self, name: str) -> str:
        if name not in self._inputs:
            raise ValueError(f"'{name}' is not an input{did_you_mean(name, self._inputs) or f'; {_EXPECTED}'}")
        if name in self.used:
            raise ValueError(f"the input '{name}' is in the call twice; expected each input once")
        self.used.add(name)
        return name


def _key(node: ast.expr | None) -> Any:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, (str, int)):
        raise ValueError("a dictionary's key is not a text or a whole number")
    return _constant(node)


def _constant(node: ast.expr) -> Any:
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node, sign = node.operand, -1
        if not isinstance(node, ast.Constant) or isinstance(node.value, (bool, str)) or node.value is None:
            raise ValueError(f"'-' stands before something that is not a number; {_EXPECTED}")
    value = node.value if isinstance(node, ast.Constant) else ...
    if isinstance(value, str):
        value.encode()  # raises ValueError for an unpaired surrogate
    if isinstance(value, (bool, str)) or value is None:
        return value
    if isinstance(value, int) and value <= _BIGGEST - (sign > 0):
        return sign * value
    if isinstance(value, float) and math.isfinite(value):
        return sign * value
    raise ValueError(f"'{ast.unparse(node)[:40]}' is neither an input nor a constant; {_EXPECTED}")
