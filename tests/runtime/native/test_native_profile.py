"""Profiles of programs on the C++ runtime: times of instructions, as a table, as JSON, and as an ETDump."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import modelbuild_runtime
from modelbuild_runtime import InputError
from modelbuild_runtime.__main__ import main
from modelbuild_runtime.profile import Profile, Row
from tests.cli.test_run_command import RULES
from tests.format_shapes import check_format
from tests.report.browser import opened
from tests.stages import wait_for
from tests.workspace_builder import Workspace


@pytest.fixture(scope="module")
def program() -> bytes:
    """Return a program of linear and relu in XNNPACK, and nonzero outside."""
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nonzero(torch.relu(self.layer(x)).reshape(-1))

    exported = torch.export.export(Model().eval(), (torch.ones(2, 8),))
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    made: bytes = lowered.to_executorch().buffer
    return made


PORTS = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 8]}],
    "outputs": [{"name": "places", "dtype": "int64", "shape": ["n", 1]}],
}
SIGNATURE = {"version": 2, "methods": {"forward": PORTS}}


@pytest.fixture
def files(tmp_path: Path, program: bytes) -> Path:
    """Return a folder with the program, its nodes and its input."""
    (tmp_path / "p.pte").write_bytes(program)
    nodes = [
        {"name": "aten_linear_default", "op": "aten.linear.default", "module": "layer", "partition": "p0"},
        {"name": "aten_nonzero_default", "op": "aten.nonzero.default", "module": None},
    ]
    (tmp_path / "delegation.json").write_text(json.dumps({"nodes": nodes}))
    np.save(tmp_path / "x.npy", np.ones((2, 8), np.float32))
    return tmp_path


@pytest.fixture
def project(files: Path, workspace: Workspace) -> Workspace:
    """Return a workspace with the program as a target."""
    workspace.write(RULES | {"m/signature.json": json.dumps(SIGNATURE), "m/x.json": json.dumps([[1.0] * 8] * 2)})
    (workspace.root / "m/p.pte").write_bytes((files / "p.pte").read_bytes())
    return workspace


def profile(files: Path, *options: str) -> int:
    return main([str(files / "p.pte"), f"--input=input0={files}/x.npy", "--repeat=4", "--profile", *options])


def test_each_operator_and_partition_is_a_row_with_its_nodes(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert profile(files, f"--profile-output={files}/p.json", "--json") == 0
    report = json.loads(capsys.readouterr().out)["profile"]
    assert report == json.loads((files / "p.json").read_text())
    check_format("profile", report)
    found = Profile.from_json(report)
    assert (report["version"], found.method, found.runs) == (1, "forward", 4)
    rows = {row.kind: row for row in found.rows}
    assert (rows["operator"].name, rows["operator"].nodes) == ("aten::nonzero.out", ("aten_nonzero_default",))
    assert (rows["partition"].backend, rows["partition"].calls) == ("XnnpackBackend", 1)
    assert "Reshape" in rows["event"].name or "Fully Connected" in rows["event"].name
    whole = [row for row in found.rows if row.kind != "event"]
    assert sum(row.share for row in whole) == pytest.approx(1)
    assert 0 < sum(row.median_us for row in whole) <= 2 * found.run_us
    assert profile(files) == 0
    text = capsys.readouterr().out
    assert "aten::nonzero.out" in text
    assert text.endswith("median of 4\n")


def test_the_program_records_what_another_machine_reads(
    files: Path, modelbuild_run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    given = (files / "p.pte", f"--input=input0={files}/x.npy", "--json")
    recorded = modelbuild_run(*given, "--repeat=4", f"--profile={files}/events")
    assert recorded.returncode == 0, recorded.stderr
    assert json.loads(recorded.stdout)["latency"] is None
    assert main([str(files / "p.pte"), f"--events={files}/events", f"--profile-output={files}/p.etdp", "--json"]) == 0
    found = Profile.from_json(json.loads(capsys.readouterr().out))
    assert (found.runs, [row.name for row in found.rows if row.kind == "operator"]) == (4, ["aten::nonzero.out"])
    assert (files / "p.etdp").stat().st_size > 100
    refused = modelbuild_run(*given, f"--profile={files}/events")
    assert (refused.returncode, refused.stderr.splitlines()[0]) == (
        2,
        "error: --profile: expected --repeat N, the number of runs to record",
    )
    unwritten = modelbuild_run(*given, "--repeat=1", f"--profile={files}/none/events")
    assert (unwritten.returncode, unwritten.stderr.count("\n")) == (1, 1)


EVENT = {"name": "DELEGATE_CALL", "chain": 0, "instruction": 0, "index": -1, "delegate": False}
HOSTILE: dict[str, Any] = {
    "nothing": "",
    "another type": [1],
    "no runs": {"runs": 1},
    "no event": {"runs": [[1]]},
    "no times": {"runs": [[EVENT]]},
    "a time as text": {"runs": [[{**EVENT, "start_ns": "1", "end_ns": 2}]]},
    "a list as name": {"runs": [[{**EVENT, "name": [], "delegate": True, "start_ns": 1, "end_ns": 2}]]},
    "a huge time": {"runs": [[{**EVENT, "start_ns": 0, "end_ns": 10**400}]]},
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_events_of_a_hostile_device_are_one_line(files: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    text = HOSTILE[name] if isinstance(HOSTILE[name], str) else json.dumps(HOSTILE[name])
    (files / "events").write_text(text)
    assert main([str(files / "p.pte"), f"--events={files}/events", f"--profile-output={files}/p.etdp"]) == 1
    expected = f"error: {files}/events: expected the events of `modelbuild-run --profile`\n"
    assert capsys.readouterr().err == expected


def test_the_command_profiles_a_target(project: Workspace, tmp_path: Path) -> None:
    command = ("run", "//m:program", "--input=x=m/x.json", "--profile")
    written = ("--profile-output=p.json", "--profile-output=p.html")
    ended = project.run(*command, *written)
    assert ended.code == 0, ended.err
    assert "aten::nonzero.out" in ended.out
    assert Profile.from_json(json.loads((project.root / "p.json").read_text())).runs == 10
    section = opened(project.root / "p.html", tmp_path / "browser").one("section", id="profile")
    assert "the median of 10 runs" in section.text
    assert {row[1] for row in section.rows()} >= {"XnnpackBackend", "portable"}


def test_a_watched_run_is_repeated_for_its_input_and_not_for_its_profile(project: Workspace) -> None:
    arguments = ("run", "//m:program", "--input=x=m/x.json", "--profile-output=p.json", "--watch")
    command = project.start(*arguments)
    wait_for(lambda: command.over or command.out.count("median of") == 1)
    time.sleep(1)
    assert (command.over, command.out.count("median of")) == (False, 1)
    project.write({"m/x.json": json.dumps([[2.0] * 8] * 2)})
    wait_for(lambda: command.over or command.out.count("median of") == 2)
    command.send(signal.SIGINT)
    assert command.wait().code == 8


def test_the_table_contains_the_slowest_and_a_sum_of_the_others() -> None:
    rows = tuple(Row("operator", f"k{i}", "portable", 0, i, 1, float(i), i / 435) for i in range(30))
    event = Row("event", "inner", "portable", 0, 29, 2, 20.0, 20 / 435)
    first, second, third, *rest = Profile("p", "forward", 3, 435.0, (*rows, event)).lines()
    assert [line.split()[0] for line in (second, third, *rest)] == [
        "k29",
        "inner",
        *(f"k{i}" for i in range(28, 4, -1)),
        "5",
        "run",
    ]
    assert first.split()[0] == "backend"
    assert rest[-2].split()[:3] == ["5", "more", "5"]
    assert "10.0" in rest[-2]


def test_executorchs_inspector_opens_the_etdump(files: Path) -> None:
    from executorch.devtools import Inspector

    assert profile(files, f"--profile-output={files}/p.etdp") == 0
    with pytest.warns(UserWarning, match="Output Buffer"):
        (block,) = Inspector(etdump_path=str(files / "p.etdp")).event_blocks
    times = {event.name: event.perf_data.raw for event in block.events if event.perf_data is not None}
    assert {"Method::execute", "DELEGATE_CALL", "OPERATOR_CALL"} <= times.keys()
    assert {len(raw) for raw in times.values()} == {4}


def test_only_a_program_that_was_loaded_for_it_records(files: Path) -> None:
    program: Any = modelbuild_runtime.load(files / "p.pte")
    with pytest.raises(InputError, match="its runs are not profiled"):
        program.take_profile()
    recorded: Any = modelbuild_runtime.load(files / "p.pte", profile=True)
    assert json.loads(recorded.take_profile())["runs"] == []
    recorded.run([np.ones((2, 8), np.float32)])
    assert [len(json.loads(recorded.take_profile())["runs"]) for _ in range(2)] == [1, 0]
