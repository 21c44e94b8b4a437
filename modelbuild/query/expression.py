"""Parse Bazel's query language. Binary operators have equal precedence and are left-associative."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from modelbuild.errors import UsageError

_TOKEN = re.compile(r"""\s+|(?P<text>"[^"]*"|'[^']*')|(?P<sign>[()+^,])|(?P<word>[A-Za-z0-9_/:.@*~\[\]-]+)""")
_OPERATORS = {
    "+": "union",
    "union": "union",
    "-": "except",
    "except": "except",
    "^": "intersect",
    "intersect": "intersect",
}
# Maximum depth of parentheses and functions; each takes some of Python's recursion limit.
_DEEPEST = 100
_RESERVED = frozenset((*_OPERATORS, "set", "(", ")", ","))


@dataclass(frozen=True, slots=True)
class Word:
    """A target pattern, or a text or number as an argument; `column` counts from 1."""

    text: str
    column: int
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """`deps(//models:detector, 2)`."""

    function: str
    arguments: tuple[Expression, ...]
    column: int


@dataclass(frozen=True, slots=True)
class Binary:
    """`left union right`; also `intersect` and `except`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Words:
    """`set(//a //b:c)`."""

    words: tuple[Word, ...]


Expression: TypeAlias = Word | FunctionCall | Binary | Words


def parse_expression(text: str) -> Expression:
    """Parse an expression. Raises UsageError with the column, the expected token and the actual token."""
    parser = _Parser(text)
    found = parser.expression()
    if parser.next is not None:
        parser.fail("an operator or the end")
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._position = 0
        self._depth = 0

    @property
    def next(self) -> Word | None:
        return self._tokens[self._position] if self._position < len(self._tokens) else None

    def fail(self, expected: str) -> NoReturn:
        found = self.next
        column = found.column if found else len(self._text) + 1
        got = f"'{found.text}'" if found else "the end"
        raise UsageError(f"query, column {column}: expected {expected}, got {got}")

    def expression(self) -> Expression:
        self._depth += 1
        if self._depth > _DEEPEST:
            self.fail(f"at most {_DEEPEST} levels")
        left = self._operand()
        while (operator := self._operator()) is not None:
            left = Binary(operator, left, self._operand())
        self._depth -= 1
        return left

    def _operator(self) -> str | None:
        found = self.next
        if found is None or found.quoted or found.text not in _OPERATORS:
            return None
        self._position += 1
        return _OPERATORS[found.text]

    def _operand(self) -> Expression:
        if self._accept("("):
            inner = self.expression()
            self._expect(")")
            return inner
        if self._accept("set"):
            self._expect("(")
            words = []
            while not self._accept(")"):
                words.append(self._word("a target pattern or ')'"))
            return Words(tuple(words))
        word = self._word("a target pattern, a function or '('")
        if word.quoted or not self._accept("("):
            return word
        arguments = [self.expression()]
        while not self._accept(")"):
            self._expect(",")
            arguments.append(self.expression())
        return FunctionCall(word.text, tuple(arguments), word.column)

    def _word(self, expected: str) -> Word:
        found = self.next
        if found is None or (not found.quoted and found.text in _RESERVED):
            self.fail(expected)
        self._position += 1
        return found

    def _accept(self, sign: str) -> bool:
        found = self.next
        if found is None or found.quoted or found.text != sign:
            return False
        self._position += 1
        return True

    def _expect(self, sign: str) -> None:
        if not self._accept(sign):
            self.fail(f"'{sign}'")


def _tokens(text: str) -> list[Word]:
    found = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            open_quote = text[position] in "\"'"
            what = "expected a closing quote, got" if open_quote else "no such character outside quotes:"
            raise UsageError(f"query, column {position + 1}: {what} '{text[position]}'")
        if match["text"] is not None:
            found.append(Word(match["text"][1:-1], position + 1, quoted=True))
        elif match.lastgroup is not None:
            found.append(Word(match[0], position + 1))
        position = match.end()
    return found
