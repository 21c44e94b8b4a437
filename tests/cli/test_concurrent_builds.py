"""Concurrent builds, killed builds, and builds whose workers die. Steps wait for the test, never for a time."""

from __future__ import annotations

import signal

import pytest

from tests.command_runner import Running
from tests.stages import Stages, running, wait_for


def chain(stages: Stages) -> None:
    """first -> middle, which waits -> last"""
    stages.declare(
        first={}, middle={"srcs": [":first"], "waits": str(stages.hold)}, last={"srcs": [":middle"]}, other={}
    )


WAITS = "waits for another build"


def start_two(stages: Stages, *arguments: str) -> tuple[Running, Running]:
    """Start two builds, of which one is in the midst of an action that the other waits for."""
    stages.hold.touch()
    first = stages.start("//a/...", "--json", *arguments)
    stages.waiting("middle")
    events = stages.workspace.root.parent / "events"
    second = stages.start("//a/...", "--json", f"--build-event-json={events}", *arguments)
    wait_for(lambda: events.exists() and WAITS in events.read_text())
    return first, second


def test_two_builds_at_once_run_each_action_once(stages: Stages) -> None:
    many = {f"after{number}": {"srcs": [":middle"]} for number in range(6)}
    stages.declare(first={}, middle={"srcs": [":first"], "waits": str(stages.hold)}, **many)
    builds = start_two(stages)
    stages.waiting("middle")  # still only one
    stages.hold.unlink()
    ended = [build.wait() for build in builds]
    for each in ended:
        assert (each.code, each.err) == (0, "")
        assert each.json["ok"]
    assert sum(each.json["counts"]["ran"] for each in ended) == 8
    assert sum(each.json["counts"]["cached"] for each in ended) == 8
    for name in many:
        assert stages.output(name) == f"first\nmiddle\n{name}\n"
    stages.verify_cache()
    assert stages.workspace.ran("//a/...") == set()


def test_a_build_goes_on_when_the_one_that_it_waits_for_is_killed(stages: Stages) -> None:
    chain(stages)
    first, second = start_two(stages)
    killed = stages.waiting("middle")
    first.kill()
    wait_for(lambda: stages.waiting("middle") != killed)
    stages.hold.unlink()
    ended = second.wait()
    assert (ended.code, ended.err) == (0, "")
    assert stages.output("last") == "first\nmiddle\nlast\n"
    stages.verify_cache()


def test_a_build_that_waits_runs_an_action_that_failed_in_the_other_one(stages: Stages) -> None:
    stages.declare(middle={"waits": str(stages.hold), "does": FAILS})
    builds = start_two(stages)
    stages.hold.unlink()
    for ended in (build.wait() for build in builds):
        assert ended.code == 1
        assert ended.json["counts"] == {"actions": 1, "ran": 0, "cached": 0, "failed": 1}


def test_a_build_that_waits_can_be_interrupted(stages: Stages) -> None:
    chain(stages)
    first, second = start_two(stages)
    second.send(signal.SIGINT)
    assert second.wait().code == 8
    assert not first.over
    stages.hold.unlink()
    assert first.wait().code == 0


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
