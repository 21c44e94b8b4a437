"""`modelbuild check`: programs that cannot be lowered, with every reason, and nothing lowered."""

from __future__ import annotations

import json

import pytest

from tests.workspace_builder import Workspace

NET = """import torch
from torch import nn


class Good(nn.Module):
    def forward(self, x):
        return torch.relu(x)


class Mixed(nn.Module):
    def forward(self, x):
        return torch.relu(torch.cumsum(torch.relu(x), 1))


class Bad(nn.Module):
    def forward(self, x):
        y = torch.special.bessel_j0(x)
        y = torch.special.airy_ai(y)
        y = torch.special.bessel_y0(y)
        return torch.special.bessel_y1(x[:2, :2])[0, 0] + y


class Unbounded(nn.Module):
    def forward(self, x):
        counts = torch.bincount(x.long().flatten())
        more = torch.bincount(x[0].long())
        return counts, more, torch.special.airy_ai(x)
"""
BUILD = """
[[torch_model]]
name = "{0}_model"
entry = "net.py:{1}"
inputs = [{{ name = "x", shape = [2, 3], dtype = "float32" }}]

[[pte_program]]
name = "{0}"
model = ":{0}_model"
stack = ":stack"
"""
STACK = """
[[backend_stack]]
name = "stack"
backends = ["xnnpack", "portable"]
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    build = (
        STACK
        + BUILD.format("good", "Good")
        + BUILD.format("mixed", "Mixed")
        + BUILD.format("bad", "Bad")
        + BUILD.format("unbounded", "Unbounded")
    )
    files = {"MODELBUILD.toml": "", "BUILD.toml": build, "net.py": NET}
    return Workspace(tmp_path_factory.mktemp("checked"), files)


def test_every_reason_with_its_place_and_each_program(built: Workspace) -> None:
    ended = built.run("check", "//...")
    assert ended.code == 1
    why = "xnnpack: no such XNNPACK operator"
    for name, line in (("special_bessel_j0", 17), ("special_airy_ai", 18)):
        assert f"  aten.{name}.default, 1 node: node aten_{name}_default at net.py:{line}; {why}\n" in ended.err
    assert "\nerror: check //:bad :bad_model with :stack: ExecuTorch " in ended.err
    assert "//:bad was not built: //:bad#check failed\n" in ended.err
    assert "//:good\n" in ended.out
    assert "\n//:good: xnnpack 1 node in 1 partition\n" in ended.out
    assert "//:bad: " not in ended.out
    assert not (built.root / "modelbuild-out/default/good").exists()


def test_nothing_is_compiled(built: Workspace) -> None:
    ended = built.run("check", "//:good")
    assert ended.code == 0
    assert "2 actions" in ended.out
    assert "partition" not in ended.err


def test_each_program_with_its_backends_and_refusals(built: Workspace) -> None:
    first, again = built.run("check", "//:mixed"), built.run("check", "//:mixed")
    for ended in (first, again):
        assert ended.out.splitlines()[-3:] == [
            "//:mixed: xnnpack 2 nodes in 2 partitions, portable 1 node",
            "  1 aten.cumsum.default, portable: xnnpack refused it: no such XNNPACK operator",
            "  break between p0 and p1: aten.cumsum.default at net.py:12, which read 24 bytes and return 24",
        ]
    assert json.loads(built.run("check", "//:mixed", "--json").out)["up_to_date"]
    assert "//:mixed" not in built.run("check", "//:mixed", "--quiet").out
    built.run("build", "//:mixed")
    totals = json.loads((built.root / "modelbuild-out/default/mixed/delegation.json").read_text())["totals"]
    assert {name: total["nodes"] for name, total in totals.items()} == {"xnnpack": 2, "portable": 1}


def test_the_build_fails_for_the_same_reasons(built: Workspace) -> None:
    ended = built.run("build", "//:bad")
    assert ended.code == 1
    assert "at net.py:17" in ended.err
    assert "at net.py:18" in ended.err


def test_targets_without_a_check(built: Workspace) -> None:
    ended = built.run("check", "//:good_model")
    assert (ended.code, ended.err) == (
        2,
        "error: no output group 'check' in //:good_model; groups: default\n",
    )


def test_errors_in_the_declarations_of_all_programs(built: Workspace) -> None:
    (built.root / "other").mkdir()
    (built.root / "other/BUILD.toml").write_text(BUILD.format("far", "Good").replace("net.py", "//:net.py"))
    ended = built.run("check", "//other:far")
    assert ended.code == 3
    assert "no output group" not in ended.err
    assert "error: other/BUILD.toml:" in ended.err
    assert "//other:far was not built: the error at other/BUILD.toml:" in ended.err


def test_sizes_without_a_bound_hide_no_other_reason(built: Workspace) -> None:
    ended = built.run("check", "//:unbounded")
    assert ended.code == 1
    assert "aten.special_airy_ai.default (node aten_special_airy_ai_default at net.py:27; xnnpack: no such" in ended.err
    for line in (25, 26):
        assert f"at net.py:{line}): a size of its result depends on values and has no upper bound" in ended.err


def test_an_operator_that_a_backend_does_not_know_has_its_line(built: Workspace) -> None:
    model = BUILD.format("odd", "Good").replace(
        '":stack"', '[{ type = "xnnpack", exclude_ops = ["aten.rel.default"] }]'
    )
    shared = """[[backend_stack]]
name = "shared"
backends = ["xnnpack", { type = "xnnpack", exclude_ops = ["aten.rel.default"] }]
[[pte_program]]
name = "second"
model = ":odd_model"
stack = ":shared"
"""
    (built.root / "places").mkdir()
    (built.root / "places/net.py").write_text(NET)
    (built.root / "places/BUILD.toml").write_text(f"{model}{shared}")
    ended = built.run("build", "//places:odd", "//places:second", "-k")
    assert ended.code == 1
    for place in ("places/BUILD.toml:10:30", "places/BUILD.toml:13:44"):
        assert f": {place}: attribute 'exclude_ops': XNNPACK takes no operator 'aten.rel" in ended.err
