"""Tuning files: they are read as written, and an error has the line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from modelbuild.step import StepError
from modelbuild_rules.backends.cuda.steps.kernels.timing import identity, tuning_text
from modelbuild_rules.backends.cuda.steps.kernels.tuning import describe, read
from tests.format_shapes import check_format

FIRST = {
    "op": "mm",
    "inputs": ["float32 [8, 4] by [4, 1]", "float32 [4, 8] by [8, 1]"],
    "output": "float32 [8, 8] by [8, 1]",
    "options": {"ALLOW_TF32": False},
    "chosen": {"template": "mm", "BLOCK_M": 16},
    "microseconds": 3.5,
    "by_cost": 4.0,
    "gpu": "NVIDIA H100",
    "driver": "580.1",
}
OTHER = {**FIRST, "op": "bmm", "chosen": {"template": "bmm", "BLOCK_M": 32}}


def file(folder: Path, *entries: Any, **head: Any) -> Path:
    made = folder / "a.tuning.json"
    text = tuning_text(entries, "2.14.0", "3.8.0", "9.0")
    for name, value in head.items():
        text = re.sub(rf'"{name}": [^\n]*,', f'"{name}": {json.dumps(value)},', text)
    made.write_text(text)
    return made


def test_written_files_are_read_again(tmp_path: Path) -> None:
    found = read(file(tmp_path, FIRST, OTHER), "2.14.0", "3.8.0", 90)
    assert {key: entry.chosen for key, entry in found.items()} == {
        identity(each): each["chosen"] for each in (FIRST, OTHER)
    }
    assert [entry.place for entry in found.values()] == ["a.tuning.json:7", "a.tuning.json:8"]


def test_files_are_sorted_and_hold_each_choice_once() -> None:
    one, other = tuning_text([FIRST, OTHER], "2", "3", "9.0"), tuning_text([OTHER, FIRST, OTHER], "2", "3", "9.0")
    assert one == other
    assert [each["op"] for each in json.loads(one)["choices"]] == ["bmm", "mm"]
    check_format("tuning", json.loads(one), maps=("choices[].chosen", "choices[].options"))


def test_of_two_timings_of_a_choice_the_faster_is_kept() -> None:
    slower = {**FIRST, "chosen": {"template": "mm", "BLOCK_M": 64}, "microseconds": 3.6}
    assert tuning_text([FIRST, slower], "2", "3", "9.0") == tuning_text([slower, FIRST], "2", "3", "9.0")
    assert tuning_text([FIRST, slower], "2", "3", "9.0") == tuning_text([FIRST], "2", "3", "9.0")


def test_a_file_without_choices_fits_all_versions(tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text('{"version": 1, "choices": []}')
    assert read(tmp_path / "none.json", "2.14.0", "3.8.0", 90) == {}


@pytest.mark.parametrize("name", ["microseconds", "by_cost", "gpu", "driver", "chosen"])
def test_timings_do_not_identify_a_choice(name: str) -> None:
    assert identity({**FIRST, name: "other"}) == identity(FIRST)


@pytest.mark.parametrize("name", ["op", "inputs", "output", "options"])
def test_all_that_was_given_says_which_it_is(name: str) -> None:
    assert identity({**FIRST, name: "other"}) != identity(FIRST)


def test_a_choice_is_told_in_a_line() -> None:
    words = "mm float32 [8, 4] by [4, 1] float32 [4, 8] by [8, 1] -> float32 [8, 8] by [8, 1]"
    assert describe(identity(FIRST)) == words


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        ({"torch": "2.13.0"}, "a.tuning.json:3: made with torch 2.13.0; expected 2.14.0: tune again with it"),
        ({"triton": "3.7.0"}, "a.tuning.json:4: made with triton 3.7.0; expected 3.8.0: tune again with it"),
        ({"capability": "8.6"}, "a.tuning.json:5: made with capability 8.6; expected 9.0: tune again with it"),
        ({"version": 2}, "a.tuning.json:2: made with version 2; expected 1: tune again with it"),
    ],
)
def test_a_file_of_something_else_is_told(tmp_path: Path, head: dict[str, Any], problem: str) -> None:
    with pytest.raises(StepError) as told:
        read(file(tmp_path, FIRST, **head), "2.14.0", "3.8.0", 90)
    assert str(told.value) == problem


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ('"choices"', '"choises"', 'a.tuning.json:1: not a tuning file; expected an object with "choices"'),
        ('"torch"', '"torhc"', "a.tuning.json:3: unknown 'torhc'; did you mean 'torch'?"),
        ('"microseconds"', '"microsecond"', "a.tuning.json:8: unknown 'microsecond' of an entry; did you mean"),
        ('"output"', '"driver2"', "a.tuning.json:8: unknown 'driver2' of an entry; did you mean 'driver'?"),
        ('"options": {"ALLOW_TF32": false}, ', "", "a.tuning.json:8: an entry without 'options'"),
        ('"chosen": {"template": "mm", "BLOCK_M": 16}, ', "", "a.tuning.json:8: an entry without \"chosen\""),
        ('"op": "mm"', '"op": "bmm"', "a.tuning.json:8: the same choice as in a.tuning.json:7; expected it once"),
        ("\n  ]", "\n  ", "a.tuning.json:10: not a tuning file: "),
    ],
)  # fmt: skip
def test_errors_name_their_line(tmp_path: Path, before: str, after: str, problem: str) -> None:
    path = file(tmp_path, FIRST, OTHER)
    head, found, tail = path.read_text().rpartition(before)
    assert found
    path.write_text(head + after + tail)
    with pytest.raises(StepError) as told:
        read(path, "2.14.0", "3.8.0", 90)
    assert str(told.value).startswith(problem), str(told.value)
