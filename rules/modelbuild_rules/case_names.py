"""The names of a pte_test's cases, and the cases that --test-filter selects."""

from __future__ import annotations

from fnmatch import fnmatchcase


def case_names(name: str, count: int) -> list[str]:
    """Return the names of the cases that a generator draws. A single case has the generator's name."""
    return [f"{name}[{number}]" for number in range(count)] if count > 1 else [name]


def is_selected(name: str, test_filter: str) -> bool:
    """Return whether a filter selects a case: by its name, the name of its generator's cases, or a pattern such as
    `image_*`. An empty filter selects every case."""
    return test_filter in ("", name, name.partition("[")[0]) or fnmatchcase(name, test_filter)
