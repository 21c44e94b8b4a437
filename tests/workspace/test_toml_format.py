"""Formatted TOML: stable, of the same value, with every comment, and in one form."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli
from hypothesis import assume
from hypothesis import strategies as st

from modelbuild.workspace.toml_format import WIDTH, format_toml
from tests.every_rule import PACKAGE
from tests.hostile import as_toml, cases, document, run_property, toml_values

ORDER = ("name", "b", "a")


def order(header: str) -> tuple[str, ...]:
    return ORDER if header == "[[rule]]" else ()


def check(text: str) -> str:
    """Return a document formatted, after checking that its value and comments stay, and that it is stable."""
    made = format_toml(text, order)
    assert comparable(tomli.loads(made)) == comparable(tomli.loads(text))
    assert format_toml(made, order) == made
    return made


def comparable(value: Any) -> Any:
    """Return a value with texts in place of floats, since nan differs from itself, and with the type of each scalar."""
    if isinstance(value, dict):
        return {key: comparable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [comparable(each) for each in value]
    return type(value), str(value) if isinstance(value, float) else value


def test_spaces_quotes_and_blank_lines_have_one_form() -> None:
    text = """


[package]   # first
default_visibility=[ '//visibility:public',]#second
[[ rule ]]
a='it\\s'
  name   =   'x'


b = {x=1,y =[ ]   }
z = 'a "quote"'
"""
    assert (
        check(text)
        == """[package]  # first
default_visibility = ["//visibility:public"]  #second

[[rule]]
name = "x"

b = { x = 1, y = [] }
a = 'it\\s'
z = 'a "quote"'
"""
    )


def test_comments_stay_with_what_they_describe() -> None:
    text = """# the file

# of the rule
[[rule]]
# of a,
# in two lines
a = 1 # behind a
# of name
name = "x"
# at the end of the rule

# on its own

# of other
[other]
x = [ # of one
  1, # behind one
  # of two
  2 # behind two

  , # behind a comma
  # at the end
]
# the end
"""
    assert (
        check(text)
        == """# the file

# of the rule
[[rule]]
# of name
name = "x"
# of a,
# in two lines
a = 1  # behind a
# at the end of the rule

# on its own

# of other
[other]
x = [
    # of one
    1,  # behind one
    # of two
    2,  # behind two

    # behind a comma
    # at the end
]
# the end
"""
    )


def test_tables_that_others_interrupt_stay_in_order() -> None:
    text = '[[rule]]\nname = "1"\n\n[[other]]\nname = "2"\n\n[[rule]]\nname = "3"\n\n[[rule.inner]]\nx = 1\n'
    assert check(text) == text


def test_lines_that_are_too_long_are_broken_at_items() -> None:
    words = [f"a-long-word-{number}" for number in range(12)]
    made = check(f'x = ["{words[0]}"]\nlong = {as_toml(words)}\ntable = {{ a = 1, long = {as_toml(words)} }}\n')
    assert made.startswith('x = ["a-long-word-0"]\nlong = [\n    "a-long-word-0",\n')
    assert max(map(len, made.splitlines())) <= WIDTH
    assert 'table = { a = 1, long = [\n    "a-long-word-0",\n' in made
    assert tomllib.loads(made)["table"]["long"] == words  # TOML 1.0, too


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# only a comment", "x = 1", "[a]", "[a.b]\n[a]\n", "x = '''\n a\n''' # c"]
)
def test_small_documents(text: str) -> None:
    made = check(text)
    assert made == "" or made.endswith("\n")
    assert not made.endswith("\n\n")


def test_all_build_files_of_the_project(repository: Path) -> None:
    for file in (*(repository / "examples").rglob("BUILD.toml"), *(repository / "tests/zoo").rglob("BUILD.toml")):
        if "modelbuild-out" not in file.parts:
            check(file.read_text())


# Documents with spaces, comments and line breaks in every place where TOML has them.

BLANKS = st.sampled_from(["", " ", "\t", "  "])
COMMENTS = st.sampled_from(["", "", "# c", "#", "#c [[x]] = '", "# é \t"])
KEYS = st.sampled_from(["a", "b", "name", "c-1", '"q.r"', "'l'", "d.e", 'f . "g"'])
SCALARS = st.sampled_from(
    [
        "1",
        "-0.5",
        "nan",
        "inf",
        "true",
        '"s"',
        "'s'",
        "'a\"b'",
        '"#"',
        "'''m\n#\n'''",
        '"""\n  m"""',
        "1979-05-27T07:32:00Z",
    ]
) | st.builds(as_toml, st.text(st.characters(exclude_categories=["Cs"]), max_size=5))


@st.composite
def gaps(draw: st.DrawFn) -> str:
    """Generate what may be between the items of an array."""
    return "".join(
        f"{draw(BLANKS)}{draw(COMMENTS)}\n{draw(BLANKS)}" if draw(st.integers(0, 3)) == 0 else draw(BLANKS)
        for _ in range(draw(st.integers(0, 3)))
    )


@st.composite
def arrays(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    items = [f"{draw(gaps())}{draw(inner)}{draw(gaps())}" for _ in range(draw(st.integers(0, 3)))]
    end = "," if items and draw(st.booleans()) else ""
    return f"[{','.join(items)}{end}{draw(gaps())}]"


@st.composite
def tables(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    keys = draw(st.lists(st.sampled_from(["a", "b", '"c d"', "e"]), unique=True, max_size=3))
    return "{" + ",".join(f"{draw(BLANKS)}{key}{draw(BLANKS)}={draw(BLANKS)}{draw(inner)} " for key in keys) + "}"


VALUES = st.recursive(SCALARS, lambda inner: arrays(inner) | tables(inner), max_leaves=5)


@st.composite
def documents(draw: st.DrawFn) -> str:
    lines = []
    for number in range(draw(st.integers(0, 4))):
        header = draw(st.sampled_from(["[[rule]]", "[[other]]", f"[t{number}]", "[[ rule . sub ]]"]))
        lines += draw(st.lists(st.sampled_from(["", "# c", "  #d "]), max_size=3))
        lines += [f"{draw(BLANKS)}{header}{draw(BLANKS)}{draw(COMMENTS)}"] if number or draw(st.booleans()) else []
        for key in draw(st.lists(KEYS, unique=True, max_size=4)):
            lines += draw(st.lists(st.sampled_from(["", "# of a key"]), max_size=2))
            lines.append(
                f"{draw(BLANKS)}{key}{draw(BLANKS)}={draw(BLANKS)}{draw(VALUES)}{draw(BLANKS)}{draw(COMMENTS)}"
            )
    return "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n# end"]))


def format_any(text: str) -> None:
    try:
        tomli.loads(text)
    except tomli.TOMLDecodeError:
        assume(False)
    made = check(text)
    assert sum(line.count("#") for line in made.splitlines()) == sum(line.count("#") for line in text.splitlines())
    assert all(line == line.rstrip() or "'''" in text or '"""' in text for line in made.splitlines())


@cases(60, 3_000)
def test_formatting_is_stable_and_keeps_values_and_comments(examples: int) -> None:
    run_property(examples, documents(), format_any)


TABLES = st.lists(st.dictionaries(st.sampled_from(["a", "x"]), toml_values()), max_size=2)


@cases(100, 1_000)
def test_values_of_every_kind_are_kept(examples: int) -> None:
    run_property(examples, st.dictionaries(st.sampled_from(["rule", "other"]), TABLES), format_values)


def format_values(value: Any) -> None:
    text = document(value)
    try:
        tomli.loads(text)
    except (ValueError, RecursionError):
        assume(False)
    check(text)


def test_a_document_with_every_attribute_of_every_rule() -> None:
    check(document(PACKAGE))
