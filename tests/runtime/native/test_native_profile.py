"""Profiles of programs on the C++ runtime: times of instructions, as a table, as JSON, and as an ETDump."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import modelbuild_runtime
from modelbuild_runtime import InputError, ProgramError
from modelbuild_runtime.__main__ import main
from modelbuild_runtime.profile import Profile, Row
from tests.cli.test_run_command import RULES
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


@pytest.fixture
def files(tmp_path: Path, program: bytes, monkeypatch: pytest.MonkeyPatch, native: Path) -> Path:
    """Return a folder with the program, its nodes and its input."""
    monkeypatch.setenv("MODELBUILD_RUNTIME", str(native))
    (tmp_path / "p.pte").write_bytes(program)
    nodes = [
        {"name": "aten_linear_default", "op": "aten.linear.default", "module": "layer", "partition": "p0"},
        {"name": "aten_nonzero_default", "op": "aten.nonzero.default", "module": None},
    ]
    (tmp_path / "delegation.json").write_text(json.dumps({"nodes": nodes}))
    np.save(tmp_path / "x.npy", np.ones((2, 8), np.float32))
    return tmp_path


def profile(files: Path, *options: str) -> int:
    return main([str(files / "p.pte"), f"--input=input0={files}/x.npy", "--repeat=4", "--profile", *options])


def test_each_operator_and_partition_is_a_row_with_its_nodes(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert profile(files, f"--profile-output={files}/p.json", "--json") == 0
    report = json.loads(capsys.readouterr().out)["profile"]
    assert report == json.loads((files / "p.json").read_text())
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


def test_the_command_profiles_a_target(files: Path, native: Path, workspace: Workspace) -> None:
    x = {"name": "x", "dtype": "float32", "shape": [2, 8]}
    signature = {"version": 1, "inputs": [x], "outputs": [{"name": "places", "dtype": "int64", "shape": ["n", 1]}]}
    workspace.write(RULES | {"m/signature.json": json.dumps(signature), "m/x.json": json.dumps([[1.0] * 8] * 2)})
    (workspace.root / "m/p.pte").write_bytes((files / "p.pte").read_bytes())
    command = ("run", "//m:program", "--input=x=m/x.json", "--profile", "--profile-output=p.json")
    ended = workspace.run(*command, MODELBUILD_RUNTIME=str(native))
    assert ended.code == 0, ended.err
    assert "aten::nonzero.out" in ended.out
    assert Profile.from_json(json.loads((workspace.root / "p.json").read_text())).runs == 10


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


def test_only_a_program_that_was_loaded_for_it_records(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program: Any = modelbuild_runtime.load(files / "p.pte")
    with pytest.raises(InputError, match="its runs are not profiled"):
        program.take_profile()
    recorded: Any = modelbuild_runtime.load(files / "p.pte", profile=True)
    assert json.loads(recorded.take_profile())["runs"] == []
    recorded.run([np.ones((2, 8), np.float32)])
    assert [len(json.loads(recorded.take_profile())["runs"]) for _ in range(2)] == [1, 0]
    monkeypatch.setenv("MODELBUILD_RUNTIME", "")
    with pytest.raises(ProgramError, match="only the C\\+\\+ runtime records profiles"):
        modelbuild_runtime.load(files / "p.pte", profile=True)
