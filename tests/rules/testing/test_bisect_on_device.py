"""The last steps of a search on a device: the command that is chosen, and what a hostile or broken device returns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelbuild.step import Step
from modelbuild_rules.testing.steps.bisect import tap_commands, wrong_node_on_device
from modelbuild_rules.testing.steps.bisect.finding import FINDING, Finding, Node, Nodes

AT = Finding("first wrong node: c, in partition p0 (xnnpack): it differs", "net.py:3")
ONE, TWO = np.zeros(3, np.float32), np.ones((2, 2), np.float32)
TOLERANCE: Any = {"abs": 1e-3, "rel": 0.0, "cosine": None, "ignore": False}

Found = Callable[..., dict[str, Any]]


@pytest.fixture
def found(tmp_path: Path) -> Found:
    """Return a function that runs the last step on arrays which a device returned; it returns the finding."""

    def run(*arrays: np.ndarray, status: int = 0, unmet: str = "", known: Finding | None = None) -> dict[str, Any]:
        wrong, device, finding = (tmp_path / name for name in ("wrong", "device", "finding.json"))
        wrong.mkdir()
        if known is not None:
            known.write(wrong / FINDING)
        nodes = [
            (Node("a", "op", ", in p0", "xnnpack", "net.py:1"), ONE),
            (Node("b", "op", ", in p0", "xnnpack", "net.py:2"), TWO),
        ]
        Nodes(nodes, AT, TOLERANCE).save(wrong)
        (wrong / "case.json").write_text(json.dumps({"name": "drawn", "call": 2, "calls": 3}))
        out = device / "out/nodes"
        out.mkdir(parents=True)
        outputs = []
        for number, array in enumerate(arrays):
            np.save(out / f"{number}.npy", array)
            outputs.append({"name": f"output{number}", "path": f"out/nodes/{number}.npy"})
        (out / "stdout").write_text(json.dumps({"outputs": outputs}))
        command = {"name": "nodes", "status": status, "seconds": 1.0, "timed_out": False}
        (device / "device.json").write_text(json.dumps({"unmet": unmet, "commands": [command], "after": {}}))
        step = Step({}, {"wrong": (wrong,), "device": (device,)}, {"finding": finding}, tmp_path)
        wrong_node_on_device.run(step)
        result: dict[str, Any] = json.loads(finding.read_bytes())
        return result

    return run


def test_the_first_wrong_node_has_its_case_and_place(found: Found) -> None:
    message = "case drawn, call 2 of 3: first wrong node: b (op), in p0: it differs by up to 1 at [0, 0]"
    ended = found(ONE, TWO * 2)
    assert (ended["version"], ended["place"]) == (1, "net.py:2")
    assert ended["message"].startswith(message)


@pytest.mark.parametrize(
    ("arrays", "given", "reason"),
    [
        ((ONE, TWO), {}, "compiled again with their results as outputs, all its nodes are right"),
        ((ONE,), {}, "the device returned 1 results; expected 2"),
        ((), {"unmet": "no device: gone"}, "its nodes were not checked: no device: gone"),
        ((ONE, TWO), {"status": 139}, "its nodes' results cannot be read: modelbuild-run was killed by SIGSEGV"),
    ],
)
def test_without_a_wrong_node_the_partition_is_reported(
    found: Found, arrays: tuple[np.ndarray, ...], given: dict[str, Any], reason: str
) -> None:
    ended = found(*arrays, **given)
    assert ended["message"] == f"case drawn, call 2 of 3: {AT.message}; {reason}"
    assert ended["place"] == AT.place


def test_another_shape_is_a_difference(found: Found) -> None:
    assert "a (op), in p0: it has the shape [2, 2], expected [3]" in found(TWO, TWO)["message"]


def test_a_finding_from_before_is_kept(found: Found) -> None:
    assert found(known=Finding("outside partitions", "net.py:9"))["message"] == "outside partitions"


def planned(folder: Path, *statuses: str) -> tuple[Any, Any]:
    """Return the commands and the case for a report whose cases ended so."""
    cases, taps, plan = (folder / name for name in ("cases", "taps", "plan"))
    for each in (cases, taps):
        each.mkdir()
    inputs = [{"x": "0.0.0.npy", "y": "0.0.1.npy"}, {"x": "0.1.0.npy"}]
    calls = [{"method": method, "inputs": given} for method, given in zip(("one", "two"), inputs, strict=True)]
    (cases / "cases.json").write_text(json.dumps([{"name": f"c{n}", "calls": calls} for n in range(len(statuses))]))
    methods = {
        "one": {"name": "first", "inputs": {"x": "input0", "y": "input2"}},
        "two": {"name": "second", "inputs": {"x": "input1"}},
    }
    (taps / "taps.json").write_text(json.dumps({"methods": methods}))
    report = folder / "report.json"
    listed = [{"name": f"c{number}", "status": status} for number, status in enumerate(statuses)]
    report.write_text(json.dumps({"cases": [*listed, {"name": "latency.max", "status": "failed"}]}))
    data = folder / "net.ptd"
    inputs = {"report": (report,), "cases": (cases,), "taps": (taps,), "program.ptd": (data,)}
    tap_commands.run(Step({}, inputs, {"plan": plan}, folder))
    return tuple(json.loads((plan / name).read_bytes()) for name in ("commands.json", "case.json"))  # type: ignore[return-value]


def test_the_first_case_that_failed_runs_with_all_its_calls(tmp_path: Path) -> None:
    (command,), case = planned(tmp_path, "passed", "failed", "failed")
    assert (command["name"], case) == ("taps", 1)
    assert command["argv"] == [
        *("bundle/bin/modelbuild-run", "taps/tapped.pte", "--data=program.ptd/net.ptd"),
        *("--method=first", "--input=input0=cases/0.0.0.npy", "--input=input2=cases/0.0.1.npy", "--next"),
        *("--method=second", "--input=input1=cases/0.1.0.npy", "--output-dir=out/taps", "--json"),
    ]


def test_without_a_case_that_failed_nothing_runs(tmp_path: Path) -> None:
    assert planned(tmp_path, "passed") == ([], None)
