"""Errors about names that look equal say how they differ."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from modelbuild.errors import did_you_mean
from modelbuild.lines import shown
from modelbuild.look_alikes import look_alike
from tests.script_rule import FILES
from tests.workspace_builder import Workspace

NFC, NFD = (unicodedata.normalize(form, "größe.json") for form in ("NFC", "NFD"))
ALIKE = [
    (NFD, NFC),
    (NFC, NFD),
    ("a\u00a0b.json", "a b.json"),
    ("a\u200bb.json", "ab.json"),
    ("\ufeffnet.json", "net.json"),
    ("n\u0435t.json", "net.json"),
    ("net\u2011a.json", "net-a.json"),
    ("\ufb01le.json", "file.json"),
    ("ö", "o\u0308"),
    ("a\u202eb", "ab"),
    ("net\ufe0f", "net"),
]


@pytest.mark.parametrize(("word", "known"), ALIKE)
def test_characters_are_escaped_where_names_look_equal(word: str, known: str) -> None:
    assert look_alike(word, known)
    assert did_you_mean(word, ["other", known]) == f"; did you mean '{known}'? It is {known!a}, not {word!a}"


def test_other_names_are_shown_as_they_are() -> None:
    assert did_you_mean("grösse.json", ["größe.json"]) == "; did you mean 'größe.json'?"
    assert did_you_mean("tset", ["test"]) == "; did you mean 'test'?"
    assert not look_alike("q\u0323", "q")


def test_a_text_that_only_looks_like_ascii_is_escaped() -> None:
    assert shown("n\u0435t") == r"'n\u0435t'"
    assert shown("a\u00a0b") == r"'a\xa0b'"
    assert shown("größe") == "'größe'"


@pytest.mark.parametrize(("written", "name"), [(NFD, NFC), (NFC, NFD)])
def test_a_source_in_another_form_is_explained(tmp_path: Path, written: str, name: str) -> None:
    workspace = Workspace(tmp_path)
    workspace.write({**FILES, "a/BUILD.toml": f'[[script]]\nname = "s"\nsrcs = ["{written}"]\n', f"a/{name}": ""})
    ended = workspace.run("build", "//a:s")
    assert (ended.code, len(ended.errors)) == (3, 1)
    assert ended.errors[0].endswith(f"did you mean '{name}'? It is {name!a}, not {written!a}")
