"""`modelbuild compare`: programs and tests in two toolchains."""

from __future__ import annotations

import pytest

from tests.toolchain.conftest import ALPHA
from tests.wheels import TOOLCHAIN, ToolchainWorkspace

# A program whose partitions are those that `alpha` says, and a test whose latency and result are.
RULES = {
    "tools/rules/net.py": """
from modelbuild.api import Attrs, Context, Files, Output, Source, Sources, TestAction, rule

class NetAttrs(Attrs):
    srcs: Sources

class NetTestAttrs(Attrs):
    program: Source
    srcs: Sources

@rule(attrs=NetAttrs)
def net(ctx):
    outputs = [Output("pte", "net.pte"), Output("delegation", "delegation.json"), Output("notes", "notes.txt")]
    made = ctx.action("net", step="net", inputs={"srcs": ctx.files(ctx.attrs.srcs)}, outputs=outputs, python=("srcs",))
    return (Files(tuple(made.values())),)

@rule(attrs=NetTestAttrs)
def net_test(ctx):
    inputs = {"srcs": ctx.files(ctx.attrs.srcs), "program": ctx.files([ctx.attrs.program])}
    made = ctx.action("test", step="net", inputs=inputs, outputs=[Output("report", "report.json")], python=("srcs",))
    return (TestAction((made["report"],)),)
""",
    "tools/rules/steps/net.py": """
import json, runpy, sys

def run(step):
    sys.path.insert(0, str(step.root))
    x = runpy.run_path(str(step.inputs["srcs"][0]))["result"]
    if "report" in step.outputs:
        status = "failed" if x == 3 else "passed"
        report = {"version": 1, "status": status, "reason": "wrong" if x == 3 else "", "cases": [],
                  "measures": {"latency_ms": 2.0 / x, "accuracy_top1": 0.5}}
        step.outputs["report"].write_text(json.dumps(report))
        return
    step.outputs["pte"].write_bytes(b"x" * 100 * x)
    step.outputs["notes"].write_text("the same")
    nodes = [{"name": f"n{i}", "op": "aten.erf", "backend": None, "refused": [], "partition": "p0" if i < x else None}
             for i in range(3)]
    step.outputs["delegation"].write_text(json.dumps({"nodes": nodes, "partitions": [{"processed_bytes": 1}]}))
""",
}
BUILD = """
[[net]]
name = "net"
srcs = ["s.py"]
[[net_test]]
name = "checked_test"
program = ":net"
srcs = ["s.py"]
[[net_test]]
name = "rarely"
program = ":net"
srcs = ["s.py"]
tags = ["manual"]
[[script]]
name = "other"
srcs = ["s.py"]
"""
COMPARE = ("compare", "//a:net", "--toolchain=//:tools", "--toolchain=//:new")


@pytest.fixture
def nets(tools: ToolchainWorkspace) -> ToolchainWorkspace:
    tools.write(
        {
            **RULES,
            "BUILD.toml": TOOLCHAIN + TOOLCHAIN.replace("tools", "new"),
            "a/BUILD.toml": BUILD,
        }
    )
    release(tools, 2)
    return tools


def release(workspace: ToolchainWorkspace, number: int) -> None:
    """Pin another release of `alpha` in the toolchain //:new."""
    workspace.index.add(
        "alpha", f"{number}.0", {**ALPHA, "alpha/__init__.py": f"import beta\nX = {number}\n"}, ["beta"]
    )
    workspace.write({"new.lock": workspace.index.lock})


def table(out: str) -> dict[tuple[str, str], list[str]]:
    """Return the cells of a table by target and title."""
    head, *lines = out.splitlines()
    old, new, change = (head.index(word) for word in ("//:tools", "//:new", "change"))
    found, subject = {}, ""
    for line in lines:
        if line.startswith("//"):
            subject = line
        else:
            found[subject, line[:old].strip()] = [
                line[old:new].strip(),
                line[new:change].strip(),
                line[change:].strip(),
            ]
    return found


def test_a_table(nets: ToolchainWorkspace) -> None:
    ended = nets.run(*COMPARE)
    assert ended.code == 0, ended.err
    found = table(ended.out)
    program, test = "//a:net (default)", "//a:checked_test (default)"
    assert {subject for subject, _ in found} == {program, test}  # none that is manual, or tests another
    assert found[program, "delegated nodes"] == ["1", "2", "+100.0%"]
    assert found[program, "delegates"] == ["1", "1", ""]
    assert found[program, "outside of partitions"] == ["1 aten.erf", "", "differ"]
    assert found[program, "net.pte"][2] == "differs"
    assert found[program, "notes.txt"][1:] == ["same bytes", ""]
    assert found[test, "result"] == ["passed", "passed", ""]
    assert found[test, "latency (ms)"] == ["2", "1", "-50.0%"]
    assert found[test, "accuracy top1"] == ["0.5", "0.5", ""]
    changes = table(nets.run(*COMPARE, "--changes").out)
    assert changes == {name: cells for name, cells in found.items() if cells[2]}


def test_a_test_that_fails_in_one_of_them(nets: ToolchainWorkspace) -> None:
    release(nets, 3)
    ended = nets.run(*COMPARE)
    assert ended.code == 4
    assert table(ended.out)["//a:checked_test (default)", "result"] == ["passed", "failed: wrong", "differs"]


def test_a_program_that_is_not_built_in_one_of_them(nets: ToolchainWorkspace) -> None:
    release(nets, 0)
    nets.add("a/s.py", "assert result, 'it is zero'\n")
    ended = nets.run(*COMPARE)
    assert ended.code == 1
    assert "it is zero" in ended.err
    found = table(ended.out)["//a:net (default)", "build"]
    assert found == ["built", "not built: //a:net#net failed", "differs"]


def test_json_and_a_report(nets: ToolchainWorkspace) -> None:
    ended = nets.run(*COMPARE, "--json", "--report=page.html", "--summary=summary.md")
    found = ended.json
    assert found["toolchains"] == ["//:tools", "//:new"]
    program, test = found["targets"][1], found["targets"][0]
    assert (program["target"], test["target"]) == ("//a:net (default)", "//a:checked_test (default)")
    assert program["before"]["left"] == {"aten.erf": 2}
    assert program["after"]["values"]["delegated"] == 2
    assert program["before"]["files"]["notes.txt"] == program["after"]["files"]["notes.txt"]
    assert ["//a:net (default)", "size (bytes)"] in [row[:2] for row in found["changes"]]
    assert "in //:tools" in (nets.root / "page.html").read_text()
    assert "| in //:tools |" in (nets.root / "summary.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("//a:net",), "expected two toolchains, as --toolchain //:old --toolchain //:new; got none"),
        (("//a:net", "--toolchain=//:new", "--toolchain=//:new"), "expected two toolchains"),
        (("//a:net", "--toolchain=//:new", "--toolchain=//:nev"), "no target 'nev' in //; did you mean 'new'?"),
        (("//a:nett", "--toolchain=//:new", "--toolchain=installed"), "no target 'nett' in //a; did you mean 'net'?"),
        (("//a:net", "--toolchians=//:new"), "no option '--toolchians=//:new'; did you mean '--toolchain'?"),
    ],
)
def test_mistakes(nets: ToolchainWorkspace, arguments: tuple[str, ...], expected: str) -> None:
    ended = nets.run("compare", *arguments)
    assert ended.code in (2, 3)
    assert expected in ended.err
    assert ended.out == ""
