"""Pages of programs: one of somebody else's, and a build with torch, in a real browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.report.browser import opened


def test_a_program_that_is_not_ours(workspace: Any, foreign_program: Path, tmp_path: Path) -> None:
    ended = workspace.run("inspect", str(foreign_program), "--html", "p.html")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    # The lines are drawn in the first frame, before which a busy machine's browser may end.
    for number in range(5):
        page = opened(workspace.root / "p.html", tmp_path / f"browser{number}")
        program = page.one("section", id="programs")
        if program.one("svg", class_="rails").children:
            break
    rows = [[cell for cell in row if cell] for row in program.one("div", class_="flow").rows()]
    assert [row[0].partition(" ")[0] for row in rows] == [str(number + 1) for number in range(len(rows))]
    assert "XnnpackBackend" in program.text
    assert "aten::nonzero.out" in program.text
    assert len(program.all("svg", class_="rails")) == 1
    assert len(program.one("svg", class_="rails").all("rect")) == 1
    assert len(program.one("svg", class_="rails").all("path")) >= 1
    refused = workspace.run("inspect", str(foreign_program), "--html", "p.txt")
    assert (refused.code, refused.err) == (2, "error: p.txt: expected a file that ends in .html for a report\n")


def test_reasons_are_beside_the_kernel_calls(workspace: Any, foreign_program: Path, tmp_path: Path) -> None:
    refused = [{"backend": "xnnpack", "why": "no such XNNPACK operator"}]
    nodes = [
        {"name": "n0", "op": "aten.nonzero.default", "backend": "portable", "refused": refused},
        {"name": "n1", "op": "operator.ge", "backend": "portable", "refused": []},
    ]
    workspace.root.joinpath("theirs.pte").write_bytes(foreign_program.read_bytes())
    workspace.write({"delegation.json": json.dumps({"nodes": nodes, "partitions": []})})
    assert workspace.run("inspect", "theirs.pte", "--html", "p.html").code == 0
    program = opened(workspace.root / "p.html", tmp_path / "browser").one("section", id="programs")
    assert "aten::nonzero.out xnnpack: no such XNNPACK operator" in program.text
    assert "1 node outside partitions without a kernel call" in program.text


MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)

    def forward(self, x):
        y = self.first(x)
        return self.last(y.cumsum(dim=1)) + y[:, :2]
"""
BUILD = """
[[torch_model]]
name = "net"
entry = "net.py:Net"
inputs = [{ name = "x", shape = [2, 4], dtype = "float32" }]
seed = 0

[[backend_stack]]
name = "xnnpack"
backends = ["xnnpack", "portable"]

[[pte_program]]
name = "program"
model = ":net"
stack = ":xnnpack"

[[pte_test]]
name = "right_test"
program = ":program"
model = ":net"
cases = [{ name = "drawn", generator = { seed = 1 } }]

[[pte_test]]
name = "wrong_test"
program = ":program"
model = ":net"
cases = [{ name = "drawn", generator = { seed = 1 } }]
limits = { bytes = 100 }
"""


@pytest.mark.exhaustive
def test_a_ci_run_of_a_real_program(workspace: Any, tmp_path: Path) -> None:
    workspace.write({"MODELBUILD.toml": "", "m/BUILD.toml": BUILD, "m/net.py": MODEL})
    ended = workspace.run("ci", "--report", "r.html", "--measures", "base.json")
    assert ended.code == 4, ended.err
    page = opened(workspace.root / "r.html", tmp_path / "browser")
    assert "start of a worker with torch" in page.one("section", id="timeline").all("p")[0].text
    program = page.one("section", id="programs")
    rows = program.one("div", class_="flow").rows()
    parts = [row for row in rows if "XnnpackBackend" in row[1]]
    assert len(parts) == 2
    assert "aten.linear.default" in parts[0][3]
    between = " ".join(row[3] for row in rows[rows.index(parts[0]) : rows.index(parts[1])])
    assert "aten::cumsum.out xnnpack: " in between
    assert {row[2] for row in rows if row is parts[0]} == {"inputs"}
    assert "limits.bytes" in page.one("section", id="failures").text
    assert "//m:right_test" in page.one("section", id="tests").text
    workspace.edit("m/BUILD.toml", "limits = { bytes = 100 }\n", "")
    workspace.edit("m/net.py", "cumsum(dim=1)", "cumsum(dim=1) * 3")
    ended = workspace.run("ci", "--report", "r.html", "--base-measures", "base.json")
    assert ended.code == 0, ended.err
    page = opened(workspace.root / "r.html", tmp_path / "browser")
    assert page.one("header").text.startswith("Passed")
    compared = page.one("section", id="sizes").rows()
    assert any(row[0] == "//m:program (default)" and row[3] and row[4] for row in compared), compared
    assert "m/net.py changed" in page.one("section", id="actions").text
