"""Action results as JSON: every result survives a round trip, and other JSON is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelbuild.actions import ActionResult, Digest, FileEntry, Tree
from modelbuild.store.codec import blobs_of, decode_result, encode_result

digests = st.builds(Digest, st.text("0123456789abcdef", min_size=64, max_size=64), st.integers(0, 2**50))
entries = st.builds(FileEntry, digests, st.booleans())
parts = st.text(min_size=1, max_size=5).filter(
    lambda part: part not in (".", "..") and not set(part) & {"/", "\0"} and part.isprintable()
)
paths = st.lists(parts, min_size=1, max_size=3).map("/".join)
trees = (
    st.dictionaries(paths, entries, max_size=3)
    .filter(lambda files: not any(other.startswith(f"{path}/") for path in files for other in files))
    .map(lambda files: Tree(tuple(sorted(files.items()))))
)
results = st.builds(
    ActionResult,
    outputs=st.dictionaries(st.text(max_size=5), entries | trees, max_size=3).map(lambda made: tuple(made.items())),
    stdout=st.none() | digests,
    stderr=st.none() | digests,
    seconds=st.floats(0, 1e9),
    max_rss=st.integers(0, 2**50),
)


@given(results)
def test_written_results_are_read(result: ActionResult) -> None:
    text = encode_result(result)
    assert decode_result(text) == result
    assert "\n" not in text


H = "a" * 64
FILE = ["file", H, 1, False]


def tree(*paths: str) -> str:
    return row(outputs=[["o", ["tree", [[path, H, 1, False] for path in paths]]]])


def row(**changed: Any) -> str:
    fields = {"outputs": [["o", FILE]], "stdout": None, "stderr": None, "seconds": 1.0, "max_rss": 1}
    return json.dumps({**fields, **changed})


def test_the_row_that_the_broken_ones_start_from_is_right() -> None:
    assert decode_result(row()).outputs == (("o", FileEntry(Digest(H, 1))),)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        "{",
        "1",
        "[" * 100_000,
        row(extra=1),
        row(outputs=None),
        row(outputs=[["o"]]),
        row(outputs=[[1, FILE]]),
        row(outputs=[["o", FILE], ["o", FILE]]),
        row(outputs=[["o", None]]),
        row(outputs=[["o", []]]),
        row(outputs=[["o", ["link", H, 1, False]]]),
        row(outputs=[["o", ["file", H, 1]]]),
        row(outputs=[["o", ["file", H, 1, False, 1]]]),
        row(outputs=[["o", ["file", H, 1, 0]]]),
        row(outputs=[["o", ["file", H, True, False]]]),
        row(outputs=[["o", ["file", H, -1, False]]]),
        row(outputs=[["o", ["file", H, 1.0, False]]]),
        row(outputs=[["o", ["file", H.upper(), 1, False]]]),
        row(outputs=[["o", ["file", H[1:], 1, False]]]),
        row(outputs=[["o", ["file", H + "\n", 1, False]]]),
        row(outputs=[["o", ["file", "../" + H[3:], 1, False]]]),
        row(outputs=[["o", ["tree"]]]),
        row(outputs=[["o", ["tree", [], []]]]),
        row(outputs=[["o", ["tree", [["a", H, 1]]]]]),
        row(outputs=[["o", ["tree", [[1, H, 1, False]]]]]),
        row(outputs=[["o", ["tree", [["b", H, 1, False], ["a", H, 1, False]]]]]),
        row(outputs=[["o", ["tree", [["a", H, 1, False], ["a", H, 1, False]]]]]),
        row(outputs=[["o", ["tree", [["../a", H, 1, False]]]]]),
        row(outputs=[["o", ["tree", [["/a", H, 1, False]]]]]),
        tree("a", "a/b"),
        tree("a", "a-", "a/b/c"),
        tree("a" * 256),
        tree("a/" + "é" * 128),
        tree("a/" * 1024 + "b"),
        tree("\ud800"),
        row(stdout=[H]),
        row(stdout=H),
        row(stderr=[H, "1"]),
        row(seconds="1"),
        row(seconds=-1),
        row(seconds=True),
        row(seconds=float("nan")),
        row(seconds=float("inf")),
        row(max_rss=1.5),
        row(max_rss=None),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any ValueError will do: the row is a miss
        decode_result(text)


def test_blobs_of_a_result() -> None:
    a, b, c, d = (Digest(letter * 64, 1) for letter in "abcd")
    outputs = (("f", FileEntry(a)), ("t", Tree((("x", FileEntry(b)), ("y", FileEntry(a, True))))))
    assert blobs_of(ActionResult(outputs, stdout=c, stderr=d)) == {a, b, c, d}
    assert blobs_of(ActionResult(outputs)) == {a, b}
