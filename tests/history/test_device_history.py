"""The history of tests on devices: values by commit, the worst regression first, cached results, damaged rows."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from modelbuild.history.database import open_history
from modelbuild.history.device_runs import DeviceRun, device_series, remember_runs
from tests.format_shapes import check_format
from tests.workspace_builder import Workspace

OLD = {"arch": "aarch64", "gpu": "Orin, 8.7, 540"}
NEW = {"arch": "aarch64", "gpu": "Orin, 8.7, 580"}


@pytest.fixture
def measured(workspace: Workspace) -> Workspace:
    """Return a workspace with two tests on two devices; one became slower with a driver, the other with a commit."""
    workspace.write({"MODELBUILD.toml": ""})
    for commit, (first, second, driver) in enumerate([(5, 9, OLD), (5, 9, OLD), (5, 9, OLD), (7, 18, NEW)]):
        run(workspace, "//m:a (orin)", {"latency_ms": first, "clock_mhz": 100 + commit * 100}, commit, driver)
        run(workspace, "//m:b (orin)", {"latency_ms": second, "latency_max_ms": 99}, commit)
        run(workspace, "//m:a (pc)", {"latency_ms": 1}, commit, OLD, device="//devices:pc")
    return workspace


def run(
    workspace: Workspace,
    subject: str,
    measures: Mapping[str, float],
    commit: int | None,
    identity: Mapping[str, str] = OLD,
    *,
    device: str = "//devices:orin",
    cached: bool = False,
) -> None:
    workspace.cache.mkdir(exist_ok=True)
    name = None if commit is None else f"{commit}" * 40
    remember_runs(workspace.cache, workspace.root, [DeviceRun(device, identity, subject, cached, measures)], name)


def test_the_worst_regression_is_first_and_each_build_has_its_commit(measured: Workspace) -> None:
    ended = measured.run("history", "--on", "//devices:orin")
    assert ended.code == 0, ended.err
    assert ended.out.splitlines() == [
        "//devices:orin  //m:b (orin) latency_ms: last 18, median 9, 9 to 18 (4)  WORSE by 100%",
        "  333333333333  18",
        "  222222222222  9",
        "  111111111111  9",
        "  000000000000  9",
        "//devices:orin  //m:a (orin) latency_ms: last 7, median 5, 5 to 7 (4)  WORSE by 40%",
        "  333333333333  7  400 MHz  gpu: Orin, 8.7, 540 -> Orin, 8.7, 580",
        "  222222222222  5  300 MHz",
        "  111111111111  5  200 MHz",
        "  000000000000  5  100 MHz",
    ]
    assert measured.run("history", "--on=//devices:orin", "--check").code == 1
    assert measured.run("history", "--on=//devices:pc", "--check").code == 0


def test_the_latency_of_a_further_method_has_lines_of_its_own(workspace: Workspace) -> None:
    workspace.write({"MODELBUILD.toml": ""})
    run(workspace, "//m:a", {"latency_ms": 5, "latency_ms_decode": 2}, 1)
    lines = workspace.run("history", "--on=//...").out.splitlines()
    assert [line for line in lines if " latency_ms_decode: last 2, " in line]


def test_patterns_choose_devices_and_a_test(measured: Workspace) -> None:
    def chosen(*arguments: str) -> list[tuple[str, str]]:
        series = measured.run("history", *arguments, "--json").json["series"]
        return [(each["device"], each["subject"]) for each in series if each["name"] == "latency_ms"]

    assert chosen("--on=//...") == [
        ("//devices:orin", "//m:b (orin)"),
        ("//devices:orin", "//m:a (orin)"),
        ("//devices:pc", "//m:a (pc)"),
    ]
    assert chosen("//m:a", "--on=//devices:all") == [("//devices:orin", "//m:a (orin)"), ("//devices:pc", "//m:a (pc)")]
    assert chosen("--on=//devices:pc") == [("//devices:pc", "//m:a (pc)")]
    printed = measured.run("history", "--on=//...", "--json").json
    check_format("history-on", printed, maps=("series[].points[].identity",))
    none = measured.run("history", "//m:b", "--on=//devices:pc")
    assert (none.code, none.err) == (2, "error: no test of //m:b was measured on //devices:pc\n")
    neither = measured.run("history")
    assert (neither.code, neither.err.count("\n")) == (2, 1)
    assert "expected the label of one, or --on LABEL" in neither.err


def test_a_cached_result_is_no_measurement(workspace: Workspace) -> None:
    def values() -> list[tuple[float, str]]:
        (found,) = device_series(workspace.cache, workspace.root)
        return [(point.value, point.commit[:1]) for point in found.points]

    run(workspace, "//m:a", {"latency_ms": 5}, None)
    run(workspace, "//m:a", {"latency_ms": 5}, 1, cached=True)  # the commit of what was measured before it
    run(workspace, "//m:a", {"latency_ms": 5}, 2, cached=True)
    assert values() == [(5, "1")]
    run(workspace, "//m:a", {"latency_ms": 5}, 3)
    run(workspace, "//m:a", {"latency_ms": 4}, 4, cached=True)  # measured elsewhere, or a commit that was reverted to
    run(workspace, "//m:a", {"latency_ms": 4}, 5, NEW, cached=True)
    assert values() == [(5, "1"), (5, "3"), (4, "4"), (4, "5")]


def test_rows_of_a_damaged_history_are_skipped(measured: Workspace, tmp_path: Path) -> None:
    own = "(SELECT workspace FROM device_runs LIMIT 1)"
    rows = [("//[x", "//m:a", "latency_ms", 1.0, 1.0), ("//d:d", "\x1b", "latency_ms", 1.0, 1.0)]
    rows += [("//d:d", "//m:a", "latency_ms", 1.0, float("inf")), ("//d:d", "//m:a", "peak_memory", 1.0, 2.0)]
    with closing(open_history(measured.cache)) as database:
        assert database.write((f"INSERT INTO device_runs VALUES ({own}, ?, ?, ?, ?, ?, 'c', 'no json')", rows))
    ended = measured.run("history", "--on=//d:d")
    assert (ended.code, ended.out.splitlines()[0]) == (0, "//d:d  //m:a peak_memory: last 2, median 2, 2 to 2 (1)")
