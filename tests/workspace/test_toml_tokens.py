"""Every character of a TOML text is in a token or a space, and every path has the position at which it is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import tomli
from hypothesis import assume, given
from hypothesis import strategies as st

from modelbuild.workspace.toml_tokens import KeyPath, Kind, positions, read_tokens
from tests.hostile import document, toml_values

DOCUMENT = '''# comment [[not]] = "a header"
[package]
default_visibility = ["//visibility:public", '//a:b'] # "x" = 1

[[torch_model]]
name = "net"
  inputs = [ # [
    { name = "x", shape = [1, 3] },  # }
    { name = "y", shape = [
        2, # ]
        4,
    ] }, ]
text = """one "quoted" \\""" ] two""""
raw = \'\'\'
[[nothing]]
it''s = 1\'\'\'\'
a."b c".d = 1979-05-27 07:32:00

[[torch_model]]
"na\\u006de" = 'second'

[torch_model.options]
x = {a.b = 1, a.c = {}, "]" = [[], [1]]}
[[torch_model.options.more]]
[[torch_model.options.more]]
k = 1
'''


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ((), (1, 1)),
        (("package",), (2, 2)),
        (("package", "default_visibility"), (3, 1)),
        (("package", "default_visibility", 0), (3, 23)),
        (("package", "default_visibility", 1), (3, 46)),
        (("torch_model",), (5, 3)),
        (("torch_model", 0), (5, 1)),
        (("torch_model", 0, "inputs"), (7, 3)),
        (("torch_model", 0, "inputs", 0), (8, 5)),
        (("torch_model", 0, "inputs", 0, "shape", 1), (8, 31)),
        (("torch_model", 0, "inputs", 1, "shape"), (9, 19)),
        (("torch_model", 0, "inputs", 1, "shape", 1), (11, 9)),
        (("torch_model", 0, "text"), (13, 1)),
        (("torch_model", 0, "raw"), (14, 1)),
        (("torch_model", 0, "a"), (17, 1)),
        (("torch_model", 0, "a", "b c"), (17, 3)),
        (("torch_model", 0, "a", "b c", "d"), (17, 9)),
        (("torch_model", 1), (19, 1)),
        (("torch_model", 1, "name"), (20, 1)),
        (("torch_model", 1, "options"), (22, 14)),
        (("torch_model", 1, "options", "x", "a"), (23, 6)),
        (("torch_model", 1, "options", "x", "a", "c"), (23, 17)),
        (("torch_model", 1, "options", "x", "]", 1), (23, 36)),
        (("torch_model", 1, "options", "x", "]", 1, 0), (23, 37)),
        (("torch_model", 1, "options", "more"), (24, 23)),
        (("torch_model", 1, "options", "more", 0), (24, 1)),
        (("torch_model", 1, "options", "more", 1), (25, 1)),
        (("torch_model", 1, "options", "more", 1, "k"), (26, 1)),
    ],
)
def test_a_path_is_found_where_it_is_written(path: KeyPath, place: tuple[int, int]) -> None:
    assert positions(DOCUMENT)[path] == place


def paths(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    yield path
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*path, key))


def test_the_paths_found_are_those_of_the_document() -> None:
    assert set(positions(DOCUMENT)) == set(paths(tomli.loads(DOCUMENT)))


TABLES = st.lists(st.dictionaries(st.text(max_size=3), toml_values(), max_size=3), max_size=2)


@given(st.dictionaries(st.text(max_size=3), TABLES | toml_values(), max_size=3))
def test_every_path_of_a_generated_document_is_found(tables: dict[str, Any]) -> None:
    text = document(tables)
    try:
        value = tomli.loads(text)
    except (ValueError, RecursionError):
        assume(False)
    assert set(positions(text)) == set(paths(value))


def test_a_table_that_is_opened_late_stands_where_its_name_was_first_written() -> None:
    found = positions("[a.b]\nx = 1\n[a]\ny = 2\n")
    assert found == {(): (1, 1), ("a",): (1, 2), ("a", "b"): (1, 4), ("a", "b", "x"): (2, 1), ("a", "y"): (4, 1)}


PARTS = (
    "[[a]]",
    "[a.b]",
    "b",
    " = ",
    ".",
    '"',
    "'",
    '"""',
    "\\",
    "[",
    "]",
    "{",
    "}",
    "\n",
    ",",
    "#",
    "=",
    "1.5",
    "\r",
    "\x00",
)


@given(st.lists(st.sampled_from(PARTS)))
def test_only_spaces_are_between_tokens(parts: list[str]) -> None:
    text = "".join(parts)
    end = 0
    for token in read_tokens(text):
        assert text[end : token.start].strip(" \t") == ""
        assert text[token.start : token.end] == token.text
        end = token.end
    assert end == len(text)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('a = ["x"\n[[t]]\nlast = 1', ("t", 0, "last")),
        ('a = { b = "x"\n[t]\nlast = 1', ("t", "last")),
        ('a = ["x"\nlast = 1', ("last",)),
        ("a = [\n[true]\n, last", ("a", 1)),
        ("a = {\nb = 1,\nlast = 1", ("a", "last")),
        ('a = "x\nlast = 1', ("last",)),
        ("[[t\nlast = 1", ("t", "last")),
    ],
)
def test_a_statement_ends_what_is_not_closed_before_it(text: str, path: KeyPath) -> None:
    (last,) = (token for token in read_tokens(text) if token.text == "last")
    assert (last.path if path == last.path else (*last.path, last.value)) == path


def test_paths_of_deep_values_do_not_grow() -> None:
    tokens = read_tokens("a = " + "[" * 30_000)
    assert tokens[-1].kind is Kind.END
    assert len(tokens[-1].path) == 200
