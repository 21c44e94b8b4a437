"""What a hostile or broken device returns: each is one line in the report, and no crash of the test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelbuild_rules.testing.steps.parity.device_report import DeviceReport
from modelbuild_rules.testing.steps.parity.device_results import measured_text
from modelbuild_runtime.errors import ProgramError

OUTPUT = {"name": "y", "path": "out/case0/y.npy"}

Returned = Callable[..., DeviceReport]


@pytest.fixture
def returned(tmp_path: Path) -> Returned:
    """Return a function that makes the report of a command which printed some text, with an output y."""

    def make(printed: str = "{}", status: int = 0, stderr: str = "", name: str = "case0") -> DeviceReport:
        folder = tmp_path / "out" / name
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "y.npy", np.arange(3, dtype=np.float32))
        (folder / "object.npy").write_bytes(b"\x93NUMPY garbage")
        (folder / "stdout").write_text(printed)
        (folder / "stderr").write_text(stderr)
        command = {"name": name, "status": status, "seconds": 1.0, "timed_out": status == 124}
        document = {"unmet": "", "identity": {"arch": "x86_64"}, "runner": "//:r", "commands": [command], "after": {}}
        return DeviceReport(tmp_path, document)

    return make


def test_outputs_of_each_call(returned: Returned) -> None:
    printed = json.dumps({"outputs": [{**OUTPUT, "call": 1}, {**OUTPUT, "call": 2}]})
    found = returned(printed).outputs("case0", 2)
    assert [each["y"].tolist() for each in found] == [[0, 1, 2]] * 2


BAD: list[tuple[Any, str]] = [
    ("no json", "the device returned no report of modelbuild-run; expected one JSON object"),
    ("[" * 100_000, "the device returned no report of modelbuild-run"),
    ([1], "the device returned no report of modelbuild-run"),
    ({}, "the device returned outputs that cannot be read"),
    ({"outputs": [7]}, "the device returned outputs that cannot be read"),
    ({"outputs": [{"name": "y", "path": "/etc/passwd"}]}, "an output at '/etc/passwd'; expected it in out/case0"),
    ({"outputs": [{"name": "y", "path": "out/case0/../../x"}]}, "expected it in out/case0"),
    ({"outputs": [{"name": "y", "path": "out/case0/none.npy"}]}, "the device returned outputs that cannot be read"),
    ({"outputs": [{"name": "y", "path": "out/case0/object.npy"}]}, "the device returned outputs that cannot be read"),
    ({"outputs": [{**OUTPUT, "call": 2}]}, "an output of call 2; expected 1 to 1"),
    ({"outputs": [{**OUTPUT, "call": "1"}]}, "an output of call 1; expected 1 to 1"),
]


@pytest.mark.parametrize(("printed", "problem"), BAD)
def test_outputs_that_are_none(returned: Returned, printed: Any, problem: str) -> None:
    text = printed if isinstance(printed, str) else json.dumps(printed)
    with pytest.raises(ProgramError) as caught:
        returned(text).outputs("case0", 1)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


ENDS = [
    (1, "error: a\nerror: no kernel\n", "modelbuild-run failed: no kernel"),
    (139, "", "modelbuild-run was killed by SIGSEGV"),
    (127, "sh: bundle/bin/modelbuild-run: not found\n", "modelbuild-run ended with exit status 127: sh: bundle/bin"),
    (2, "error: \x1b[31mred", "modelbuild-run failed: ?[31mred"),
    (124, "", "took longer than the test's timeout on the device"),
]


@pytest.mark.parametrize(("status", "stderr", "problem"), ENDS)
def test_a_program_that_failed(returned: Returned, status: int, stderr: str, problem: str) -> None:
    with pytest.raises(ProgramError) as caught:
        returned("", status, stderr).outputs("case0", 1)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize("median", ["1e400", "-1", '"x"', "null"])
def test_latencies_that_are_none(returned: Returned, median: str) -> None:
    latency = f'{{"latency": {{"median_ms": {median}, "min_ms": 1, "p95_ms": 1, "max_ms": 1}}}}'
    with pytest.raises(ProgramError, match="the device returned "):
        returned(latency, name="latency").latency()


@pytest.mark.parametrize(
    ("stated", "found"),
    [("7", {"peak_memory": 7.0}), ("-1", {}), ("true", {}), ("1e400", {}), ('"x"', {}), ("9" * 400, {}), ("null", {})],
)
def test_the_memory_that_a_device_states(returned: Returned, stated: str, found: dict[str, float]) -> None:
    assert returned(f'{{"peak_memory": {stated}}}', name="latency").peak_memory() == found


@pytest.mark.parametrize(
    ("stated", "found"),
    [("7.5", {"first_ms": 7.5}), ("-1", {}), ("true", {}), ("1e400", {}), ("NaN", {}), ('"x"', {}), ("9" * 400, {})],
)
def test_the_time_of_the_first_run_that_a_device_states(
    returned: Returned, stated: str, found: dict[str, float]
) -> None:
    assert returned(f'{{"first_ms": {stated}}}', name="latency").first() == found


def test_measures_are_in_the_note() -> None:
    measures = {"latency_ms": 6.2134, "peak_memory": 10.0 * (1 << 20), "temperature_c": 61.0, "clock_mhz": 612.4}
    assert measured_text(measures) == ": 6.213 ms, 10.0 MiB, 61 C, 612 MHz"
    assert measured_text({"temperature_c": 61.0, "bytes": 7.0}) == ""


def test_a_requirement_that_the_device_does_not_meet(returned: Returned) -> None:
    assert returned('{"unmet": ["needs\\ta GPU"]}', name="describe").unmet_requirement() == "needs?a GPU"
    assert returned('{"unmet": []}', name="describe").unmet_requirement() == ""
    assert returned('{"unmet": 7}', name="describe").unmet_requirement() == ""
    assert returned("", 139, name="describe").unmet_requirement() == ""


def test_logs_are_plain_text(returned: Returned) -> None:
    assert returned("", 0, "a\x1b[0m\nb\n").logs() == "--- case0 on the device\na?[0m\nb\n"
