"""Evaluate a target expression."""

from __future__ import annotations

import re
from typing import Any

from modelbuild.errors import UsageError, did_you_mean
from modelbuild.query.expression import Binary, Expression, FunctionCall, Word, Words, parse_expression
from modelbuild.query.functions import FUNCTIONS
from modelbuild.query.world import World

_NUMBER = re.compile(r"[0-9]{1,9}\Z")


def evaluate(world: World, text: str) -> set[str]:
    """Return the nodes that an expression selects. Raises UsageError for an invalid expression."""
    return _evaluate(world, parse_expression(text))


def _evaluate(world: World, expression: Expression) -> set[str]:
    match expression:
        case Word():
            return set(world.find(expression.text))
        case Words(words=words):
            return {node for word in words for node in _evaluate(world, word)}
        case Binary():
            return _chain(world, expression)
        case FunctionCall():
            return _call(world, expression)


def _chain(world: World, last: Binary) -> set[str]:
    """Apply operators from left to right; in a loop, because an expression may have thousands."""
    first: Expression = last
    operations: list[Binary] = []
    while isinstance(first, Binary):
        operations.append(first)
        first = first.left
    found = _evaluate(world, first)
    for each in reversed(operations):
        right = _evaluate(world, each.right)
        found = {"union": found | right, "except": found - right, "intersect": found & right}[each.operator]
    return found


def _call(world: World, call: FunctionCall) -> set[str]:
    function = FUNCTIONS.get(call.function)
    where = f"query, column {call.column}"
    if function is None:
        raise UsageError(f"{where}: no function '{call.function}'{did_you_mean(call.function, FUNCTIONS)}")
    most = len(function.takes)
    if not most - function.optional <= len(call.arguments) <= most:
        shown = ", ".join(function.takes)
        raise UsageError(f"{where}: expected {call.function}({shown}), got {len(call.arguments)} arguments")
    values: list[Any] = []
    for kind_, argument in zip(function.takes, call.arguments, strict=False):
        if kind_ == "expression":
            values.append(_evaluate(world, argument))
        elif not isinstance(argument, Word) or (kind_ == "number" and not _NUMBER.match(argument.text)):
            raise UsageError(f"{where}: {call.function} takes a {kind_} as argument {len(values) + 1}")
        else:
            values.append(int(argument.text) if kind_ == "number" else argument.text)
    return function.answer(world, *values)
