"""A build after a change of sources only builds stale targets, with the same result as a full build."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from modelbuild.build.target_reads import TargetReads, merge_reads

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

# Runs the command, then prints its imports.
PROGRAM = (
    "import sys; from modelbuild.cli import invoke; code = invoke(sys.argv[1:]);"
    "print(*sorted(sys.modules), file=sys.stderr); sys.exit(code)"
)


# The command, and then the processes for actions that were started: how many, and how many did not end.
STARTS = """
import sys
from modelbuild.execution.fork_server_client import ForkServer
started = []
init = ForkServer.__init__
def counted(self):
    started.append(self)
    init(self)
ForkServer.__init__ = counted
from modelbuild.cli import invoke
code = invoke(sys.argv[1:])
print(len(started), sum(warm.alive for warm in started), file=sys.stderr)
sys.exit(code)
"""


class World:
    def __init__(self, root: Path) -> None:
        self.root = root / "workspace"
        self.cache = root / "cache"
        declared = [f"[[join]]\nname = '{name}'\nsrcs = {json.dumps(srcs)}\n" for name, srcs in GRAPH.items()]
        declared += [f"[[filegroup]]\nname = '{name}'\nsrcs = {json.dumps(srcs)}\n" for name, srcs in FILES.items()]
        self.write(
            {
                "MODELBUILD.toml": 'rules = ["//rules"]\n',
                "BUILD.toml": "\n".join(declared),
                "rules/__init__.py": "",
                "rules/join.py": RULE,
                "rules/steps/__init__.py": "",
                "rules/steps/join.py": STEP,
                **{name: f"{name}\n" for name in "abcdeghijk"},
            }
        )

    def write(self, files: Mapping[str, str]) -> None:
        """Wait, too, until the file system's clock distinguishes another change from this one."""
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        time.sleep(0.1)

    def build(self, *arguments: str, code: int | None = None, program: Sequence[str] = ("-m", "modelbuild")) -> Any:
        ended = subprocess.run(
            [sys.executable, *program, "build", "--json", *(arguments or ("//...",))],
            cwd=self.root,
            env={**os.environ, "MODELBUILD_CACHE_DIR": str(self.cache)},
            capture_output=True,
            text=True,
        )
        assert ended.returncode in ((0, 1) if code is None else (code,)), ended.stderr
        self.said = ended.stderr
        return json.loads(ended.stdout or "null")

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
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    assert made.build()["ok"]
    return made


def owners(told: Any) -> set[str]:
    """Return the targets whose actions were looked up."""
    return {action["owner"] for action in told["actions"]}


def test_what_a_source_touches_and_no_more_is_looked_at(world: World) -> None:
    world.write({"b": "B\n"})
    told = world.build()
    assert owners(told) == {"//:t0", "//:t1"}
    assert [target["label"] for target in told["targets"] if not target["built"]] == []
    assert {target["label"] for target in told["targets"]} == {f"//:{name}" for name in (*GRAPH, *FILES)}
    world.check()
    told = world.build()
    assert (told["up_to_date"], told["counts"]["actions"]) == (True, len(GRAPH))


@pytest.mark.parametrize(
    ("change", "started"),
    [({"b": "B\n"}, 1), ({}, 0), ({"BUILD.toml": "[[join]]\nname = 1\n"}, 0)],
    ids=["a source", "an output", "a BUILD file that is wrong"],
)
def test_a_process_for_actions_is_started_where_there_will_be_some(
    world: World, change: Mapping[str, str], started: int
) -> None:
    assert world.build(program=("-c", STARTS))["ok"]  # which Python imports from other folders than before
    world.write(change)
    (world.root / "modelbuild-out/default/t7/made").unlink()
    told = world.build(program=("-c", STARTS), code=3 if "BUILD.toml" in change else 0)
    assert world.said.splitlines()[-1] == f"{started} 0"
    if "BUILD.toml" not in change:
        assert owners(told) == {"//:t7"} | ({"//:t0", "//:t1"} if change else set())


def test_the_reader_of_a_file_through_a_target_of_files_is_found(world: World) -> None:
    world.write({"k": "K\n"})
    assert owners(world.build()) == {"//:t3", "//:t9"}
    world.check()


def test_an_output_that_is_gone_is_laid_out_again(world: World) -> None:
    (world.root / "modelbuild-out/default/t7/made").unlink()
    assert owners(world.build()) == {"//:t7"}
    world.check()
    assert world.build()["up_to_date"]


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
def test_anything_else_takes_the_whole_way(world: World, change: Mapping[str, str]) -> None:
    world.write({"b": "B\n", **change})
    told = world.build()
    declared = {"other"} if "BUILD.toml" in change else {*GRAPH, *FILES} | ({"more"} if "sub/x" in change else set())
    assert {target["label"].rpartition(":")[2] for target in told["targets"]} == declared
    if "BUILD.toml" not in change:
        assert owners(told) == {f"//:{name}" for name in GRAPH}
        world.check()


def test_byte_code_that_comes_or_goes_is_no_change(world: World) -> None:
    for folder in list((world.root / "rules").rglob("__pycache__")):
        shutil.rmtree(folder)
    assert world.build()["up_to_date"]
    (world.root / "rules" / "steps" / "__pycache__").mkdir()
    assert world.build()["up_to_date"]
    world.write({"rules/steps/textwrap.py": ""})
    assert not world.build()["up_to_date"]


def test_where_most_sources_change_all_targets_are_looked_up(world: World) -> None:
    world.write({"a": "all\n", "c": "", "d": "", "e": "", "h": "", "j": ""})
    assert owners(world.build()) == {f"//:{name}" for name in GRAPH}
    world.check()
    assert world.build()["up_to_date"]


def test_what_a_glob_finds_is_never_taken_from_before(world: World) -> None:
    declared = "[[join]]\nname = 'joined'\nsrcs = { glob = ['*.txt'] }\n"
    world.write({"texts/BUILD.toml": declared, "texts/1.txt": "1", "texts/2.txt": "2"})
    assert world.build()["ok"]
    made = world.root / "modelbuild-out/default/texts/joined/made"
    world.write({"texts/1.txt": "one"})
    assert owners(world.build()) == {"//texts:joined"}
    assert made.read_text() == "one2"
    world.write({"texts/1.txt": "1", "texts/3.txt": "3"})
    assert world.build()["ok"]
    assert made.read_text() == "123"
    (world.root / "texts/2.txt").unlink()
    world.write({"texts/1.txt": "one"})
    assert world.build()["ok"]
    assert made.read_text() == "one3"


def test_a_source_that_is_gone_is_missed(world: World) -> None:
    (world.root / "d").unlink()
    world.write({"b": "B\n"})
    told = world.build(code=3)
    assert "d" in told["error"]


def test_what_another_build_declared_is_not_used(world: World) -> None:
    """A record and the file beside it are written one after the other, and two builds may do so concurrently."""
    (reads,) = (world.root / "modelbuild-out/.modelbuild/snapshots").glob("*.reads")
    other = reads.read_text().replace('"b","b"', '"a","a"')
    reads.write_text(other.replace(other.split(", ")[1], "1", 1))
    world.write({"b": "B\n"})
    assert owners(world.build()) == {f"//:{name}" for name in GRAPH}
    world.check()


def test_the_same_command_line_needs_no_click(world: World) -> None:
    """The options are those of the saved command line, errors are printed as usual, and click parses any other line."""
    command = [sys.executable, "-c", PROGRAM, "build", "//:t0", "//:t9", "--keep-going", "--device", "//:none"]
    environment = {**os.environ, "MODELBUILD_CACHE_DIR": str(world.cache)}

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *options], cwd=world.root, env=environment, capture_output=True, text=True)

    assert run().stderr.startswith("error: no target 'none'")
    command[-2:] = ["--jobs", "1"]
    assert "click" in run().stderr.split()
    world.write({"b": "B\n"})
    again = run()
    assert (again.returncode, "click" in again.stderr.split()) == (0, False)
    assert "Built 2 targets" in again.stdout
    assert (world.root / "modelbuild-out/default/t0/made").read_text() == world.expected("t0")
    assert "Nothing to do" in run().stdout
    assert "click" in run("--quiet").stderr.split()

    world.write({"BUILD.toml": "nonsense"})
    broken = run()
    assert (broken.returncode, "click" in broken.stderr.split()) == (3, False)
    assert broken.stderr.startswith("error: BUILD.toml:1:")


def test_after_a_failure_the_whole_way_is_taken(world: World) -> None:
    (world.root / "b").write_bytes(b"\xff")
    time.sleep(0.1)
    assert not world.build()["ok"]
    world.write({"b": "B\n"})
    assert world.build()["ok"]
    world.check()


def test_random_changes_come_out_as_a_whole_build_does(world: World) -> None:
    draw = random.Random(7)
    for number in range(4):
        world.write({name: f"{name}{number}\n" for name in draw.sample("abcdeghijk", draw.randint(1, 3))})
        assert world.build()["ok"]
        world.check()
        assert world.build()["up_to_date"]


def test_readers_are_followed_through_what_needs_them() -> None:
    reads = TargetReads({"//:a": ["x"], "//:b": ["y"], "//:c": []}, {"//:b": ["//:a"], "//:c": ["//:b"]})
    assert reads.readers({"x"}) == {"//:a", "//:b", "//:c"}
    assert reads.readers({"y"}) == {"//:b", "//:c"}
    assert reads.readers({"z"}) == set()


def test_what_was_known_of_other_devices_stays_known() -> None:
    old = TargetReads({"//:a": ["x", "z"], "//:b": ["y"]}, {"//:a": ["//:c"]}, {"//:a": 1, "//:b": 2})
    new = TargetReads({"//:a": ["x"], "//:b": ["y"]}, {"//:a": ["//:b"]}, {"//:a": 3, "//:b": 1})
    assert merge_reads(old, new, {"//:a"}) == TargetReads(
        {"//:a": ["x", "z"], "//:b": ["y"]},
        {"//:a": ["//:b", "//:c"]},
        {"//:a": 3, "//:b": 2},
    )
