"""Concurrent builds, killed builds, and builds whose workers die. Steps wait for the test, never for a time."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.command_runner import Running
from tests.workspace_builder import Workspace

RULE = '''
from modelbuild.api import Attrs, Context, Files, Output, Sources, rule

class StageAttrs(Attrs):
    """Does something odd, and writes what it was given with its own name added."""

    srcs: Sources = ()
    waits: str = ""
    """A file; while it is there, the step waits."""
    does: str = ""

@rule(attrs=StageAttrs)
def stage(ctx: Context[StageAttrs]) -> tuple[Files]:
    made = ctx.action(
        "stage",
        step="stage",
        inputs={"srcs": ctx.files(ctx.attrs.srcs)},
        outputs=[Output("out", f"{ctx.label.name}.txt")],
        params={"name": ctx.label.name, "does": ctx.attrs.does},
        unkeyed={"waits": ctx.attrs.waits},
    )
    return (Files((made["out"],)),)
'''
STEP = """
import os, signal, sys, tempfile, time

def run(step):
    name, waits = step.params["name"], step.params["waits"]
    if waits:
        with open(f"{tempfile.gettempdir()}/{name}.{os.getpid()}", "w"):
            pass
        while os.path.exists(waits):
            time.sleep(0.01)
    print("printed by", name)
    print("complained by", name, file=sys.stderr)
    exec(step.params["does"])
    text = "".join(path.read_text() for path in step.inputs.get("srcs", ()))
    step.outputs["out"].write_text(text + name + "\\n")
"""


def wait_for(condition: Callable[[], Any]) -> Any:
    """Wait until the condition returns something; return that."""
    for _ in range(12000):
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError("waited for two minutes in vain")


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Stages:
    """A workspace whose package //a has stages."""

    def __init__(self, workspace: Workspace, folder: Path) -> None:
        self.workspace = workspace
        self.hold = folder / "hold"
        workspace.write(
            {
                "MODELBUILD.toml": 'rules = ["//rules"]\n',
                "rules/__init__.py": "",
                "rules/stage.py": RULE,
                "rules/steps/__init__.py": "",
                "rules/steps/stage.py": STEP,
            }
        )

    def declare(self, **stages: dict[str, Any]) -> None:
        text = ""
        for name, attributes in stages.items():
            given = {"srcs": [], **attributes}
            lines = "".join(f"{key} = {value!r}\n" for key, value in given.items())
            text += f'[[stage]]\nname = "{name}"\n{lines}\n'
        self.workspace.write({"a/BUILD.toml": text})

    def start(self, *arguments: str) -> Running:
        # Actions may read the folders of libraries.
        return self.workspace.start("build", *arguments, LD_LIBRARY_PATH=str(self.hold.parent))

    def waiting(self, name: str, count: int = 1) -> list[int]:
        """Return the processes of a stage, once there are as many."""

        def found_all() -> list[int]:
            begun = (self.workspace.cache / "tmp").glob(f"build-*/*/.home/{name}.[0-9]*")
            found = [int(path.suffix[1:]) for path in begun]
            return found if len(found) == count else []

        pids: list[int] = wait_for(found_all)
        return pids

    def output(self, name: str) -> str:
        return (self.workspace.root / f"modelbuild-out/default/a/{name}/{name}.txt").read_text()

    def processes(self) -> list[int]:
        """Return all processes of this workspace's builds: their command lines or folders name it."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                told = (folder / "cmdline").read_bytes().decode(errors="replace") + os.readlink(folder / "cwd")
            except OSError:
                continue
            if (
                str(self.workspace.root.parent) in told
                and int(folder.name) != os.getpid()
                and running(int(folder.name))
            ):
                found.append(int(folder.name))
        return found

    def verify_cache(self) -> None:
        ended = self.workspace.run("cache", "verify", "--json")
        assert (ended.code, ended.json["bad"]) == (0, [])


@pytest.fixture
def stages(workspace: Workspace, tmp_path: Path) -> Stages:
    folder = tmp_path / "signals"
    folder.mkdir()
    return Stages(workspace, folder)


def chain(stages: Stages) -> None:
    """first -> middle, which waits -> last"""
    stages.declare(
        first={}, middle={"srcs": [":first"], "waits": str(stages.hold)}, last={"srcs": [":middle"]}, other={}
    )


def test_two_builds_at_once_are_both_right_and_neither_waits_for_the_other(stages: Stages) -> None:
    many = {f"after{number}": {"srcs": [":middle"]} for number in range(6)}
    stages.declare(first={}, middle={"srcs": [":first"], "waits": str(stages.hold)}, **many)
    stages.hold.touch()
    builds = [stages.start("//a/...", "--json", f"--jobs={jobs}") for jobs in (1, 2)]
    stages.waiting("middle", 2)  # both are in the midst of the same action
    stages.hold.unlink()
    for build in builds:
        ended = build.wait()
        assert (ended.code, ended.err) == (0, "")
        assert ended.json["ok"]
    for name in many:
        assert stages.output(name) == f"first\nmiddle\n{name}\n"
    stages.verify_cache()
    assert stages.workspace.ran("//a/...") == set()


def test_a_build_is_done_while_another_one_is_stuck(stages: Stages) -> None:
    chain(stages)
    stages.hold.touch()
    stuck = stages.start("//a:last")
    (worker,) = stages.waiting("middle")
    assert stages.workspace.ran("//a:other") == {"//a:other#stage"}
    stages.workspace.run("clean")
    assert not stuck.over
    assert running(worker)
    stages.hold.unlink()
    assert stuck.wait().code == 0
    assert stages.output("last") == "first\nmiddle\nlast\n"


def test_a_killed_build_leaves_nothing_running_and_the_next_one_goes_on(stages: Stages) -> None:
    chain(stages)
    stages.hold.touch()
    build = stages.start("//a:last")
    stages.waiting("middle")
    build.kill()
    wait_for(lambda: not stages.processes())
    stages.hold.unlink()
    statuses = stages.workspace.build("//a:last").statuses
    assert statuses == {"//a:first#stage": "cached", "//a:middle#stage": "ran", "//a:last#stage": "ran"}
    assert stages.output("last") == "first\nmiddle\nlast\n"
    stages.verify_cache()
    assert [path for path in (stages.workspace.cache / "tmp").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm(stages: Stages, kind: signal.Signals) -> None:
    chain(stages)
    stages.hold.touch()
    build = stages.start("//a:last")
    stages.waiting("middle")
    build.send(kind)
    ended = build.wait()
    assert (ended.code, ended.out) == (8, "")
    assert [line for line in ended.err.splitlines() if line][1:] == [
        "Interrupted: 3 actions, 1 ran, 0 cached, 2 not run",
        "interrupted",
    ]
    assert stages.processes() == []
    stages.hold.unlink()
    assert stages.workspace.ran("//a:last") == {"//a:middle#stage", "//a:last#stage"}


def test_ctrl_c_as_json(stages: Stages) -> None:
    chain(stages)
    stages.hold.touch()
    build = stages.start("//a:last", "--json")
    stages.waiting("middle")
    build.send(signal.SIGINT)
    ended = build.wait()
    assert (ended.code, ended.err.strip()) == (8, "interrupted")
    assert ended.json["interrupted"]


FAILS = "raise ValueError('no good')"


def test_keep_going_builds_what_no_failure_touches(stages: Stages) -> None:
    stages.declare(bad={"does": FAILS}, worse={"srcs": [":bad"]}, one={}, two={"srcs": [":one"]})
    ended = stages.workspace.run("build", "//a/...", "--keep-going", "--jobs=1", "--json")
    assert ended.code == 1
    targets = {target["label"]: target.get("because") for target in ended.json["targets"]}
    assert targets == {"//a:bad": "//a:bad#stage", "//a:worse": "//a:bad#stage", "//a:one": None, "//a:two": None}
    assert [failure["id"] for failure in ended.json["failures"]] == ["//a:bad#stage"]
    assert ended.json["counts"] == {"actions": 4, "ran": 2, "cached": 0, "failed": 1}
    assert stages.output("two") == "one\ntwo\n"
    assert not (stages.workspace.root / "modelbuild-out/default/a/bad").exists()


def test_otherwise_nothing_starts_after_a_failure(stages: Stages) -> None:
    """Two actions run at once and fail; actions that depend on them do not start."""
    stages.declare(**{f"s{number}": {"waits": str(stages.hold), "does": FAILS} for number in range(6)})
    stages.hold.touch()
    build = stages.start("//a/...", "--jobs=2", "--json")
    stages.waiting("*", 2)
    stages.hold.unlink()
    ended = build.wait()
    assert ended.code == 1
    assert ended.json["counts"] == {"actions": 6, "ran": 0, "cached": 0, "failed": 2}


def test_a_failure_shows_what_was_printed_and_why(stages: Stages) -> None:
    stages.declare(bad={"does": "open('nothing.txt')"}, after={"srcs": [":bad"]})
    ended = stages.workspace.run("build", "//a:after")
    assert (ended.code, ended.out) == (1, "")
    lines = ended.err.splitlines()
    assert lines[:5] == [
        "[1/2] stage //a:bad  FAILED",
        "--- stdout of stage //a:bad",
        "printed by bad",
        "--- stderr of stage //a:bad",
        "complained by bad",
    ]
    assert "error: stage //a:bad: internal error in step rules.steps.stage: FileNotFoundError" in ended.err
    assert lines[-2] == "//a:after was not built: //a:bad#stage failed"
    assert lines[-1].startswith("Failed in ")
    assert lines[-1].endswith(": 0 targets built, 1 not: 2 actions, 0 ran, 0 cached, 1 failed, 1 not run")


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "killed by SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL (out of memory? peak "),
        ("os._exit(3)", "the process ended with exit status 3 before step rules.steps.stage returned"),
    ],
)
def test_a_worker_that_dies(stages: Stages, does: str, why: str) -> None:
    stages.declare(bad={"does": does}, good={})
    ended = stages.workspace.run("build", "//a/...", "--keep-going", "--jobs=1")
    assert ended.code == 1
    assert f"error: stage //a:bad: {why}" in ended.err
    assert "--- stdout of stage //a:bad\nprinted by bad\n" in ended.err
    assert "internal error" not in ended.err
    assert stages.output("good") == "good\n"
