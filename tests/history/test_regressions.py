"""The definition of a regression, and its line in `modelbuild history`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import pytest

from modelbuild.history.database import open_history
from modelbuild.history.identity import identity
from modelbuild.history.regressions import change, is_regression, noise
from tests.command_runner import Ended
from tests.workspace_builder import Workspace


@pytest.mark.parametrize(
    ("name", "values", "worse"),
    [
        ("bytes", [100, 102], True),
        ("bytes", [100, 101], False),
        ("bytes", [100, 90], False),
        ("bytes", [102], False),
        ("delegated_fraction", [0.9, 0.8], True),
        ("delegated_fraction", [0.8, 0.9], False),
        ("latency_ms", [10, 10, 10, 13], True),
        ("latency_ms", [10, 10, 10, 12], False),
        ("latency_ms", [10, 10, 13], False),  # too few values
        ("latency_ms", [10, 10, 14, 10, 13], False),  # it was slower before
        ("latency_ms", [14, *[10] * 10, 13], True),  # that is long ago
        ("seconds", [0, 0, 0, 1], False),
        ("peak_memory", [10, 10, 10, 13], True),
        ("clock_mhz", [10, 10, 10, 13], False),  # neither good nor bad
        ("temperature_c", [10, 10, 10, 13], False),
    ],
)
def test_regressions_by_measure(name: str, values: Sequence[float], worse: bool) -> None:
    assert is_regression(name, values) == worse


@pytest.mark.parametrize(
    ("name", "before", "base", "now", "mark"),
    [
        ("latency_ms", [10, 3, 9.5], 10, 3.2, "within noise"),  # 68% better, as it has been before
        ("latency_ms", [10, 9, 9.5], 10, 3.2, ""),
        ("latency_ms", [10, 9, 9.5], 10, 8.5, "within noise"),  # less than a fifth
        ("latency_ms", [10, 9], 10, 3.2, "few values"),
        ("latency_ms", [3, *[10] * 10], 10, 3.2, ""),  # that is long ago
        ("latency_ms", [10, 10, 10], 30, 20, "within noise"),  # between the base and the values here
        ("memory", [100, 100, 100], 0, 1, "within noise"),
        ("latency_ms", [10, 10, 10], 10, 10, ""),
        ("bytes", [], 100, 101, ""),
    ],
)
def test_noise_is_what_earlier_values_show(
    name: str, before: Sequence[float], base: float, now: float, mark: str
) -> None:
    assert noise(name, before, base, now) == mark


def test_change_is_against_the_median() -> None:
    assert change([1, 2, 30, 3]) == 0.5
    assert change([7]) is None


def measure(workspace: Workspace, *rows: tuple[str, str, int, float]) -> None:
    """Write subject, name, time and value of measures to the history."""
    sql = "INSERT INTO measures VALUES (?, ?, ?, ?, ?, '')"
    with closing(open_history(workspace.cache)) as database:
        assert database.write((sql, [(identity(workspace.root), *row) for row in rows]))


def test_the_command_says_it(workspace: Workspace) -> None:
    def history(*arguments: str) -> Ended:
        return workspace.run("history", "//m:a", *arguments)

    workspace.write({"MODELBUILD.toml": ""})
    workspace.cache.mkdir()
    rows = [("//m:a (cpu)", "bytes", 1000.0), ("//m:a (cpu)", "latency_ms", 10.0), ("//m:ab (cpu)", "bytes", 9.0)]
    measure(workspace, *((subject, name, at, value) for subject, name, value in rows for at in range(4)))
    same = history("--check")
    assert (same.code, same.out) == (
        0,
        "//m:a (cpu) bytes: last 1,000, median 1,000, 1,000 to 1,000 (4)\n"
        "//m:a (cpu) latency_ms: last 10, median 10, 10 to 10 (4)\n",
    )
    measure(workspace, ("//m:a (cpu)", "bytes", 9, 1120.0))
    grown = history("--check")
    assert grown.code == 1
    assert grown.out.startswith("//m:a (cpu) bytes: last 1,120, median 1,000, 1,000 to 1,120 (5)  WORSE by 12%\n")
    assert "latency_ms: last 10, median 10, 10 to 10 (4)\n" in grown.out
    told = history("--json")
    assert told.code == 0
    assert [(each["name"], each["change"], each["regression"]) for each in told.json["series"]] == [
        ("bytes", 0.12, True),
        ("latency_ms", 0.0, False),
    ]
