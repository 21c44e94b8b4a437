"""The place of a cursor in a BUILD file that need not be valid."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from modelbuild.lsp.cursor import Cursor, cursor_at
from tests.hostile import NASTY, cases, run_property


def at(text: str) -> Cursor:
    return cursor_at(text.replace("|", "", 1), text.index("|"))


@pytest.mark.parametrize(
    ("text", "kind", "path", "word"),
    [
        ("[[to|rch", "header", (), "torch"),
        ("[profile.c|i", "header", (), "profile.ci"),
        ("[[a]]\nna|me", "key", ("name",), "name"),
        ("[[a]]\nname = |", "value", ("name",), ""),
        ('[[a]]\nname = "x|y"', "value", ("name",), "xy"),
        ("[[a]]\nname = 'x|y'\n", "value", ("name",), "xy"),
        ('[[a]]\nb = ["x", "|"]', "value", ("b", 1), ""),
        ('[[a]]\nb = [\n  "x",\n  "y|",\n]', "value", ("b", 1), "y"),
        ('[[a]]\nb = [{ c = "d" }, { e| = 1 }]', "key", ("b", 1, "e"), "e"),
        ('[[a]]\nb = [{ c = "d", e = { f = "|', "value", ("b", 0, "e", "f"), ""),
        ('[[a]]\nb = ["x\nc = "|"', "value", ("c",), ""),
        ("[[a]]\nb = [1, \nc|", "value", ("b", 1), "c"),
        ('[[a]]\nb = { c = 1\n[[d]]\ne = "|"', "value", ("e",), ""),
        ("[[a]]\nb = 1 # |", "other", (), ""),
        ("|", "other", (), ""),
        ('[[a]]\nb = "#" \nc = "|"', "value", ("c",), ""),
    ],
)
def test_a_cursor_is_found_in_text_that_is_being_typed(
    text: str, kind: str, path: tuple[str | int, ...], word: str
) -> None:
    found = at(text)
    assert (found.kind, found.path, found.text) == (kind, path, word)


@cases(200, 20_000)
def test_any_text_has_a_place_at_every_offset(examples: int) -> None:
    parts = st.lists(st.sampled_from((*NASTY, "[[a]]\n", "b = ", '"', "'", "[", "{", "}", "]", "\n", ",", "#", "=")))

    def holds(given: tuple[list[str], int]) -> None:
        text = "".join(given[0])
        offset = given[1] % (len(text) + 1)
        found = cursor_at(text, offset)
        assert 0 <= found.start <= offset <= found.end <= len(text)
        assert found.before == text[found.start : offset]

    run_property(examples, st.tuples(parts, st.integers(0, 10_000)), holds)
