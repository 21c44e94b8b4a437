"""Sizes that a user writes: one meaning and one error wherever a size is expected."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from modelbuild.api import Attrs, Size
from modelbuild.sizes import MOST, parse_size
from tests.hostile import NASTY, cases, run_property


class Table(Attrs):
    size: Size


@pytest.mark.parametrize(
    ("written", "size"),
    [
        (4096, 4096),
        ("4096", 4096),
        ("10B", 10),
        ("2kB", 2000),
        ("2KB", 2000),
        ("2KiB", 2048),
        ("500 MB", 500_000_000),
        ("1.5 GiB", 3 << 29),
        ("0.5TiB", 1 << 39),
        ("1.7", 1),
        ("0.1GB", 100_000_000),
        ("9007199254740993", 9007199254740993),
        (MOST, MOST),
    ],
)
def test_sizes(written: int | str, size: int) -> None:
    assert parse_size(written) == size
    assert Table.model_validate({"size": written}).size == size


WORDS = 'expected a size such as "20GiB" or "500 MB", or bytes, got '
RANGE = "expected a size from 1 byte to 8 EiB, got "


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        *(
            (text, WORDS)
            for text in ("", "GiB", "1GIB", "1gb", "-1GB", "1 G B", "1e3", "20G", "20Gi", "8k", "1_000", " 1")
        ),
        *((text, WORDS) for text in ("9" * 400 + "GiB", "1\n", "٣GB")),
        *((size, RANGE) for size in (0, -1, MOST + 1, "0", "0.9", "9" * 18 + "TiB", "8388608TiB")),
    ],
)
def test_invalid_sizes(written: int | str, problem: str) -> None:
    with pytest.raises(ValueError, match=r"^expected ") as caught:
        parse_size(written)
    assert str(caught.value).startswith(problem)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValidationError, match="Value error, expected "):
        Table.model_validate({"size": written})


@pytest.mark.parametrize("written", [True, False, 1.5, None, [], {}])
def test_other_values_of_an_attribute_are_no_sizes(written: object) -> None:
    with pytest.raises(ValidationError):
        Table.model_validate({"size": written})


def test_nothing_is_a_size_where_it_is_allowed() -> None:
    assert parse_size("0", least=0) == 0
    with pytest.raises(ValueError, match=r"^expected a size from 0 bytes to 8 EiB, got -1$"):
        parse_size(-1, least=0)


@cases(200, 2_000)
def test_any_text_is_a_size_or_refused(examples: int) -> None:
    def holds(text: str) -> None:
        with suppress(ValueError):
            assert 1 <= parse_size(text) <= MOST

    run_property(examples, st.sampled_from(NASTY) | st.text(alphabet="019.kKMGTiB \n٣", max_size=12), holds)
