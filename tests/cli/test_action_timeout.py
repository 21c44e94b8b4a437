"""The time limit of actions: --action-timeout, [build] action_timeout, and the attribute of a target."""

from __future__ import annotations

import pytest

from tests.stages import Stages, running, wait_for
from tests.workspace_builder import Workspace

# Starts programs, one in a session of its own, and never ends.
ENDLESS = "; ".join(
    [
        "import subprocess",
        'one = subprocess.Popen(["sleep", "600"])',
        'other = subprocess.Popen(["sleep", "600"], start_new_session=True)',
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        'file = open(tempfile.gettempdir() + "/programs", "w")',
        "print(one.pid, other.pid, file=file, flush=True)",
        "time.sleep(600)",
    ]
)
SLOW = "time.sleep(1.5)"


def test_an_action_that_takes_longer_is_killed_with_all_its_processes(stages: Stages) -> None:
    stages.declare(a={"does": ENDLESS}, b={}, c={"srcs": [":a"]})
    build = stages.start("//a/...", "-k", "--action-timeout", "1 s")
    scratch = stages.workspace.cache / "tmp"

    def programs() -> list[int]:
        texts = [path.read_text() for path in scratch.glob("build-*/*/.home/programs")]
        return [int(pid) for text in texts if text.endswith("\n") for pid in text.split()]

    pids = wait_for(programs)
    assert len(pids) == 2
    ended = build.wait()
    assert ended.code == 1
    assert ended.errors == ["error: stage //a:a: took longer than 1 s (--action-timeout)"]
    assert "printed by a" in ended.err  # all that it printed until then
    assert stages.output("b") == "b\n"
    assert not any(map(running, pids))
    # The limit is in no key, and the failure is not cached.
    stages.declare(a={}, b={}, c={"srcs": [":a"]})
    ended = stages.workspace.build("//a/...", "--action-timeout", "1 h")
    assert ended.statuses == {"//a:a#stage": "ran", "//a:b#stage": "cached", "//a:c#stage": "ran"}
    assert stages.workspace.build("//a/...", "--action-timeout", "2 h").json["up_to_date"]


def settings(stages: Stages, build: str = "", profile: str = "") -> None:
    stages.workspace.write({"MODELBUILD.toml": f'rules = ["//rules"]\n[build]\n{build}\n[profile.ci]\n{profile}\n'})


@pytest.mark.parametrize(
    ("build", "profile", "flags", "seconds"),
    [
        ("action_timeout = 1", "", "", 1),
        ("action_timeout = 1", 'action_timeout = "1 h"', "", 1),
        ("action_timeout = 1", 'action_timeout = "1 h"', "--config ci", 3600),
        ('action_timeout = "1 h"', "action_timeout = 1", "--config ci", 1),
        ('action_timeout = "1 h"', 'action_timeout = "1 h"', "--config ci --action-timeout 1s", 1),
        ("action_timeout = 1", "", "--action-timeout 3600", 3600),
    ],
)
def test_the_command_line_overrides_the_profile_which_overrides_the_file(
    stages: Stages, build: str, profile: str, flags: str, seconds: int
) -> None:
    settings(stages, build, profile)
    stages.declare(a={"does": SLOW})
    ended = stages.workspace.run("build", "//a:a", *flags.split())
    late = ["error: stage //a:a: took longer than 1 s (--action-timeout)"]
    assert (ended.code, ended.errors) == ((1, late) if seconds == 1 else (0, []))


def test_a_targets_own_limit_replaces_the_builds_and_is_in_no_key(stages: Stages) -> None:
    stages.declare(a={"does": SLOW, "action_timeout": 1}, b={"does": SLOW, "action_timeout": "1 h"})
    ended = stages.workspace.run("build", "//a/...", "-k", "--action-timeout", "1 s")
    assert ended.errors == ["error: stage //a:a: took longer than 1 s (action_timeout of //a:a)"]
    stages.declare(a={}, b={"does": SLOW})
    assert stages.workspace.ran("//a/...") == {"//a:a#stage"}


@pytest.mark.parametrize("command", ["build", "test", "ci"])
def test_each_command_that_builds_has_the_limit(stages: Stages, command: str) -> None:
    test = '[[stage]]\nname = "s"\n[[py_test]]\nname = "t"\nsrcs = ["test_x.py"]\ndata = [":a"]\n'
    stages.declare(a={"does": SLOW})
    stages.workspace.add("a/BUILD.toml", test)
    stages.workspace.write({"a/test_x.py": "def test_x(): pass\n"})
    target = {"test": "//a:t", "ci": "//a/..."}.get(command, "//a:a")
    ended = stages.workspace.run(command, target, "--action-timeout", "1")
    assert "error: stage //a:a: took longer than 1 s (--action-timeout)" in ended.errors
    assert ended.code == 1


def test_a_test_has_its_own_limit_only(workspace: Workspace) -> None:
    build = '[[py_test]]\nname = "t"\nsrcs = ["test_x.py"]\n'
    slow = "import time\n\ndef test_slow():\n    time.sleep(1.5)\n"
    workspace.write({"MODELBUILD.toml": "[build]\naction_timeout = 1\n", "BUILD.toml": build, "test_x.py": slow})
    assert workspace.test("//:t")["//:t"]["status"] == "passed"
    workspace.add("BUILD.toml", "timeout = 1\n")
    (ended,) = workspace.test("//:t", "--no-cache-test-results", code=4).values()
    assert ended["reason"] == "took longer than its timeout"


WORDS = "expected a duration such as"
FILE, BUILD = "MODELBUILD.toml", "BUILD.toml"


@pytest.mark.parametrize(
    ("file", "text", "code", "problem"),
    [
        ("--action-timeout", "1 hour", 2, f"--action-timeout: {WORDS}"),
        ("--action-timeout", "0", 2, "--action-timeout: expected a duration from 1 s to 1000000 s, got '0'"),
        (FILE, "[build]\naction_timeout = true\n", 3, f"{FILE}:2:1: 'action_timeout': {WORDS}"),
        (FILE, "[profile.x]\naction_timeout = 'x'\n", 3, f"{FILE}:2:1: 'action_timeout': {WORDS}"),
        (BUILD, "[[filegroup]]\nname = 'f'\naction_timeout = 1.5\n", 3, f"{BUILD}:3:1: 'action_timeout': {WORDS}"),
    ],
)
def test_invalid_limits(workspace: Workspace, file: str, text: str, code: int, problem: str) -> None:
    flag = (file, text) if file.startswith("--") else ()
    workspace.write({FILE: "", BUILD: "[[filegroup]]\nname = 'f'\nsrcs = []\n", **({} if flag else {file: text})})
    ended = workspace.run("build", "//:f", *flag)
    assert ended.code == code
    assert ended.err.startswith(f"error: {problem}"), ended.err
