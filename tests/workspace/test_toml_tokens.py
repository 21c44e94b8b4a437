"""Every character of a TOML text is in a token or a space, and every path has the position at which it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from modelbuild.workspace.toml_tokens import KeyPath, Kind, positions, read_tokens

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


KEYS = st.text(st.sampled_from('ab1-_ ."\\]#\n\u00e9\U0001d11e'), max_size=3)
SCALARS = [
    "1", "-0.5e3", "true", "inf", "0xff", "1979-05-27", "1979-05-27 07:32:00Z", "07:32:00",
    '""', "''", '"a\\"]"', "'\\'", '"""a"""', '""""a""b"""""',
    '"""\n[[x]]\n\\""" # \\\\"""', "'''\n'x' = ''1'''''", "'''a\\'''",
]  # fmt: skip


@dataclass
class Writer:
    """Writes a document and records the position of each path."""

    draw: st.DrawFn
    text: str = ""
    expected: dict[KeyPath, tuple[int, int]] = field(default_factory=lambda: {(): (1, 1)})

    def place(self) -> tuple[int, int]:
        return self.text.count("\n") + 1, len(self.text) - self.text.rfind("\n")

    def note(self, path: KeyPath) -> None:
        self.expected.setdefault(path, self.place())

    def one_of(self, *choices: str) -> None:
        self.text += self.draw(st.sampled_from(choices))

    def space(self) -> None:
        self.one_of("", " ", "\t", "  ")

    def blank(self) -> None:
        self.one_of("", " ", "\n", " # [[a]] \"'} = ,\n", "\n\n\t")

    def key(self, key: str) -> None:
        choices = ['"' + "".join(f"\\U{ord(c):08x}" for c in key) + '"']
        if re.fullmatch("[A-Za-z0-9_-]+", key):
            choices.append(key)
        if "\n" not in key:
            choices.append(f"'{key}'")
            choices.append('"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"')
        self.one_of(*choices)

    def keys(self, path: KeyPath, new: list[str], old: list[str] | None = None) -> KeyPath:
        """Return a dotted key whose parts `old` lead to `path`, and `new` ones below it."""
        for index, key in enumerate([*(old or []), *new]):
            if index:
                self.space()
                self.text += "."
            self.space()
            if index >= len(old or []):
                path = (*path, key)
                self.note(path)
            self.key(key)
        self.space()
        return path

    def pair(self, path: KeyPath, key: str, depth: int) -> None:
        path = self.keys(path, [key, *self.draw(st.lists(KEYS, max_size=2))])
        self.text += "="
        self.space()
        self.value(path, depth)

    def value(self, path: KeyPath, depth: int) -> None:
        kind = self.draw(st.sampled_from(["array", "table", "scalar"])) if depth else "scalar"
        if kind == "scalar":
            self.one_of(*SCALARS)
            return
        self.text += "[" if kind == "array" else "{"
        self.blank()
        for index, key in enumerate(self.draw(st.lists(KEYS, max_size=3, unique=True))):
            if index:
                self.text += ","
                self.blank()
            if kind == "array":
                self.note((*path, index))
                self.value((*path, index), depth - 1)
            else:
                self.pair(path, key, depth - 1)
            self.blank()
        self.text += "]" if kind == "array" else "}"

    def body(self, path: KeyPath) -> None:
        for key in self.draw(st.lists(KEYS, max_size=3, unique=True)):
            self.space()
            self.pair(path, "k" + key, 2)
            self.one_of("\n", " # ' \" [\n", "\n\n")

    def tables(self, path: KeyPath, written: list[str]) -> None:
        """Write some `[table]`s and `[[array]]`s below `path`, whose headers begin with the keys `written`."""
        if len(written) > 3:
            return
        for key in self.draw(st.lists(KEYS, max_size=2, unique=True)):
            new = ["t" + key, *self.draw(st.lists(KEYS, max_size=1))]
            elements = self.draw(st.integers(0, 2))
            for index in range(elements or 1):
                self.space()
                start = self.place()
                self.text += "[[" if elements else "["
                table = self.keys(path, new, written)
                self.text += "]]\n" if elements else "]\n"
                if elements:
                    table = (*table, index)
                    self.expected[table] = start
                self.body(table)
                self.tables(table, [*written, *new])


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[KeyPath, tuple[int, int]]]:
    writer = Writer(draw)
    writer.blank()
    writer.body(())
    writer.tables((), [])
    return writer.text, writer.expected


@given(documents())
def test_every_path_of_a_generated_document_is_found(document: tuple[str, dict[KeyPath, tuple[int, int]]]) -> None:
    text, expected = document
    assert set(paths(tomli.loads(text))) == set(expected)
    assert positions(text) == expected


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
