"""A build after a change of sources only builds stale targets, with the same result as a full build."""

from __future__ import annotations

import json
import random
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from modelbuild.build_record.target_reads import TargetReads, merge_reads
from tests.command_runner import MODELBUILD
from tests.workspace_builder import Workspace

RULE = """
from modelbuild.api import Attrs, Context, Files, Output, Sources, rule


class JoinAttrs(Attrs):
    srcs: Sources


@rule(attrs=JoinAttrs)
def join(ctx: Context[JoinAttrs]) -> tuple[Files]:
    made = ctx.action("join", step="join", inputs={"srcs": ctx.files(ctx.attrs.srcs)}, outputs=[Output("made", "made")])
    return (Files((made["made"],)),)
"""

STEP = """
from modelbuild.step import Step


def run(step: Step) -> None:
    step.outputs["made"].write_text("".join(path.read_text() for path in step.inputs["srcs"]))
"""

# Target -> its sources: files, other targets, or (f) a target of files. The whole of them is more than twice what any
# one file touches but "a".
GRAPH = {
    "t0": ["a", "b"],
    "t1": ["c", ":t0"],
    "t2": ["d"],
    "t3": [":f"],
    "t4": [":t2", "g"],
    "t5": ["h"],
    "t6": ["h", "i"],
    "t7": ["j"],
    "t8": ["j", ":t5"],
    "t9": ["k"],
}
FILES = {"f": ["e", "k"]}

# The command, and then the processes for actions that were started: how many, and how many did not end.
STARTS = """
import sys
from modelbuild.execution.fork_server_client import ForkServer
started = []
init = ForkServer.__init__
def counted(self, *given):
    started.append(self)
    init(self, *given)
ForkServer.__init__ = counted
from modelbuild.cli import invoke
code = invoke(sys.argv[1:])
print(len(started), sum(warm.alive for warm in started), file=sys.stderr)
sys.exit(code)
"""
COUNTING = (sys.executable, "-c", STARTS)


class Joins(Workspace):
    def __init__(self, folder: Path) -> None:
        declared = [f"[[join]]\nname = '{name}'\nsrcs = {json.dumps(srcs)}\n" for name, srcs in GRAPH.items()]
        declared += [f"[[filegroup]]\nname = '{name}'\nsrcs = {json.dumps(srcs)}\n" for name, srcs in FILES.items()]
        files = {
            "MODELBUILD.toml": 'rules = ["//rules"]\n',
            "BUILD.toml": "\n".join(declared),
            "rules/__init__.py": "",
            "rules/join.py": RULE,
            "rules/steps/__init__.py": "",
            "rules/steps/join.py": STEP,
        }
        super().__init__(folder, files | {name: f"{name}\n" for name in "abcdeghijk"})

    def write(self, files: Mapping[str, str]) -> None:
        """Wait, too, until the file system's clock distinguishes another change from this one."""
        super().write(files)
        time.sleep(0.1)

    def built(self, *arguments: str, code: int | None = None, program: Sequence[str] = MODELBUILD) -> Any:
        ended = self.run("build", "--json", *(arguments or ("//...",)), program=program)
        assert ended.code in ((0, 1) if code is None else (code,)), ended.err
        self.said = ended.err
        return json.loads(ended.out or "null")

    def expected(self, name: str) -> str:
        if name in FILES:
            return "".join((self.root / file).read_text() for file in FILES[name])
        return "".join(
            self.expected(source[1:]) if source.startswith(":") else (self.root / source).read_text()
            for source in GRAPH[name]
        )

    def check(self) -> None:
        for name in GRAPH:
            assert (self.root / f"modelbuild-out/default/{name}/made").read_text() == self.expected(name), name


@pytest.fixture
def workspace(tmp_path: Path) -> Joins:
    made = Joins(tmp_path)
    assert made.built()["ok"]
    return made


def owners(told: Any) -> set[str]:
    """Return the targets whose actions were looked up."""
    return {action["owner"] for action in told["actions"]}


def test_only_targets_of_a_source_are_looked_at(workspace: Joins) -> None:
    workspace.write({"b": "B\n"})
    told = workspace.built()
    assert owners(told) == {"//:t0", "//:t1"}
    assert [target["label"] for target in told["targets"] if not target["built"]] == []
    assert {target["label"] for target in told["targets"]} == {f"//:{name}" for name in (*GRAPH, *FILES)}
    workspace.check()
    told = workspace.built()
    assert (told["up_to_date"], told["counts"]["actions"]) == (True, len(GRAPH))


@pytest.mark.parametrize(
    ("change", "started"),
    [({"b": "B\n"}, 1), ({}, 0), ({"BUILD.toml": "[[join]]\nname = 1\n"}, 0)],
    ids=["a source", "an output", "a BUILD file that is wrong"],
)
def test_a_process_for_actions_is_started_where_there_will_be_some(
    workspace: Joins, change: Mapping[str, str], started: int
) -> None:
    assert workspace.built(program=COUNTING)["ok"]  # which Python imports from other folders than before
    workspace.write(change)
    (workspace.root / "modelbuild-out/default/t7/made").unlink()
    told = workspace.built(program=COUNTING, code=3 if "BUILD.toml" in change else 0)
    assert workspace.said.splitlines()[-1] == f"{started} 0"
    if "BUILD.toml" not in change:
        assert owners(told) == {"//:t7"} | ({"//:t0", "//:t1"} if change else set())


def test_the_reader_of_a_file_through_a_target_of_files_is_found(workspace: Joins) -> None:
    workspace.write({"k": "K\n"})
    assert owners(workspace.built()) == {"//:t3", "//:t9"}
    workspace.check()


def test_an_output_that_is_gone_is_laid_out_again(workspace: Joins) -> None:
    (workspace.root / "modelbuild-out/default/t7/made").unlink()
    assert owners(workspace.built()) == {"//:t7"}
    workspace.check()
    assert workspace.built()["up_to_date"]


@pytest.mark.parametrize(
    "change",
    [
        {"BUILD.toml": "[[filegroup]]\nname = 'other'\nsrcs = ['a']\n"},
        {"rules/steps/join.py": STEP + "\n# changed\n"},
        {"rules/join.py": RULE.replace('"made")]', '"made")], params={"of": "another rule"}')},
        {"MODELBUILD.toml": 'rules = ["//rules"]\n[build]\njobs = 1\n'},
        {"sub/BUILD.toml": "[[filegroup]]\nname = 'more'\nsrcs = ['x']\n", "sub/x": ""},
    ],
    ids=["a BUILD file", "a step", "a rule", "the configuration", "a new package"],
)
def test_anything_else_takes_the_whole_way(workspace: Joins, change: Mapping[str, str]) -> None:
    workspace.write({"b": "B\n", **change})
    told = workspace.built()
    declared = {"other"} if "BUILD.toml" in change else {*GRAPH, *FILES} | ({"more"} if "sub/x" in change else set())
    assert {target["label"].rpartition(":")[2] for target in told["targets"]} == declared
    if "BUILD.toml" not in change:
        assert owners(told) == {f"//:{name}" for name in GRAPH}
        workspace.check()


def test_byte_code_that_comes_or_goes_is_no_change(workspace: Joins) -> None:
    for folder in list((workspace.root / "rules").rglob("__pycache__")):
        shutil.rmtree(folder)
    assert workspace.built()["up_to_date"]
    (workspace.root / "rules" / "steps" / "__pycache__").mkdir()
    assert workspace.built()["up_to_date"]
    workspace.write({"rules/steps/textwrap.py": ""})
    assert not workspace.built()["up_to_date"]


def test_where_most_sources_change_all_targets_are_looked_up(workspace: Joins) -> None:
    workspace.write({"a": "all\n", "c": "", "d": "", "e": "", "h": "", "j": ""})
    assert owners(workspace.built()) == {f"//:{name}" for name in GRAPH}
    workspace.check()
    assert workspace.built()["up_to_date"]


def test_glob_results_are_never_reused(workspace: Joins) -> None:
    declared = "[[join]]\nname = 'joined'\nsrcs = { glob = ['*.txt'] }\n"
    workspace.write({"texts/BUILD.toml": declared, "texts/1.txt": "1", "texts/2.txt": "2"})
    assert workspace.built()["ok"]
    made = workspace.root / "modelbuild-out/default/texts/joined/made"
    workspace.write({"texts/1.txt": "one"})
    assert owners(workspace.built()) == {"//texts:joined"}
    assert made.read_text() == "one2"
    workspace.write({"texts/1.txt": "1", "texts/3.txt": "3"})
    assert workspace.built()["ok"]
    assert made.read_text() == "123"
    (workspace.root / "texts/2.txt").unlink()
    workspace.write({"texts/1.txt": "one"})
    assert workspace.built()["ok"]
    assert made.read_text() == "one3"


def test_a_source_that_is_gone_is_missed(workspace: Joins) -> None:
    (workspace.root / "d").unlink()
    workspace.write({"b": "B\n"})
    told = workspace.built(code=3)
    assert "d" in told["error"]


def test_declarations_of_another_build_are_not_used(workspace: Joins) -> None:
    """A record and the file beside it are written one after the other, and two builds may do so concurrently."""
    (reads,) = (workspace.root / "modelbuild-out/.modelbuild/snapshots").glob("*.reads")
    other = reads.read_text().replace('"b","b"', '"a","a"')
    reads.write_text(other.replace(other.split(", ")[1], "1", 1))
    workspace.write({"b": "B\n"})
    assert owners(workspace.built()) == {f"//:{name}" for name in GRAPH}
    workspace.check()


def test_after_a_failure_the_whole_way_is_taken(workspace: Joins) -> None:
    (workspace.root / "b").write_bytes(b"\xff")
    time.sleep(0.1)
    assert not workspace.built()["ok"]
    workspace.write({"b": "B\n"})
    assert workspace.built()["ok"]
    workspace.check()


def test_random_changes_come_out_as_a_whole_build_does(workspace: Joins) -> None:
    draw = random.Random(7)
    for number in range(4):
        workspace.write({name: f"{name}{number}\n" for name in draw.sample("abcdeghijk", draw.randint(1, 3))})
        assert workspace.built()["ok"]
        workspace.check()
        assert workspace.built()["up_to_date"]


def test_readers_are_followed_through_what_needs_them() -> None:
    reads = TargetReads({"//:a": ["x"], "//:b": ["y"], "//:c": []}, {"//:b": ["//:a"], "//:c": ["//:b"]})
    assert reads.readers({"x"}) == {"//:a", "//:b", "//:c"}
    assert reads.readers({"y"}) == {"//:b", "//:c"}
    assert reads.readers({"z"}) == set()


def test_facts_about_other_devices_are_kept() -> None:
    old = TargetReads({"//:a": ["x", "z"], "//:b": ["y"]}, {"//:a": ["//:c"]}, {"//:a": 1, "//:b": 2})
    new = TargetReads({"//:a": ["x"], "//:b": ["y"]}, {"//:a": ["//:b"]}, {"//:a": 3, "//:b": 1})
    assert merge_reads(old, new, {"//:a"}) == TargetReads(
        {"//:a": ["x", "z"], "//:b": ["y"]},
        {"//:a": ["//:b", "//:c"]},
        {"//:a": 3, "//:b": 2},
    )
