"""The runner of documents: which blocks it runs, and that a wrong page fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.docs.pages import Command, File, follow, missing, parts, start_of

PAGE = """
`a/text`

```toml
one
```

`a/text`, appended

```toml
two
```

```toml
not a file
```

```console
$ cat a/text
one
$ cd a && echo three \\
    >> text
$ cat text; echo "took 3.1 s"
two
three
took 99 s
```
"""


def test_files_and_commands_are_in_the_order_of_the_page() -> None:
    assert list(parts(PAGE)) == [
        File("a/text", "one\n", False),
        File("a/text", "two\n", True),
        Command("cat a/text", ("one",)),
        Command("cd a && echo three     >> text", ()),
        Command('cat text; echo "took 3.1 s"', ("two", "three", "took 99 s")),
    ]


def test_commands_continue_in_the_directory_of_the_last_one(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    assert follow(PAGE, tmp_path / "work", os.environ) == 3
    assert (tmp_path / "work/a/text").read_text() == "one\n\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("```console\n$ false\n```\n", "exit code 1"),
        ("```console\n$ echo one\ntwo\n```\n", "did not print: two"),
        ("```console\n$ echo one; echo two\ntwo\none\n```\n", "did not print: one"),
        ("```console\n$ cd /; false\n```\n", "exit code 1"),
    ],
)
def test_a_page_fails_that_shows_something_else(page: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with pytest.raises(AssertionError, match=message):
        follow(page, tmp_path / "work", os.environ)


def test_dots_match_any_text_of_a_line() -> None:
    assert missing(("a ... c", "0.5 ms"), "x\na b c\n7 ms") is None
    assert missing(("a...",), "b a") == "a..."


def test_a_page_names_the_page_that_it_starts_with(tmp_path: Path) -> None:
    page = tmp_path / "how-to.md"
    page.write_text("Start with the workspace of\n[the tutorial](first.md).\n")
    assert start_of(page) == (tmp_path / "first.md").resolve()
    page.write_text("See [the tutorial](first.md).\n")
    assert start_of(page) is None
