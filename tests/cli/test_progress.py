"""The progress of a running action, through the command line."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.script_rule import FILES, SCRIPT, WAITS
from tests.workspace_builder import Workspace

# A step that shows its progress, and a model's script that waits.
STEP = FILES["tools/rules/steps/script.py"].replace(
    "def run(step):\n", 'def run(step):\n    step.progress("kernel", 4, 17)\n'
)


def progress(workspace: Workspace) -> list[Any]:
    path = workspace.root / "events.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    events = [json.loads(line) for line in lines if line.endswith("\n")]
    return [event for event in events if event["event"] == "action_progress"]


def test_the_part_of_its_work_that_an_action_has_begun_is_an_event(workspace: Workspace) -> None:
    files = {"tools/rules/steps/script.py": STEP, "a/s.py": f"{WAITS}\nresult = 1\n"}
    workspace.write({**FILES, **files})
    build = workspace.start("build", SCRIPT, "--build-event-json", "events.jsonl")
    while not build.over and not progress(workspace):
        time.sleep(0.01)
    assert not build.over, build.err
    ended = workspace.let_go(build)
    assert ended.code == 0, ended.err
    assert [(event["id"], event["part"]) for event in progress(workspace)] == [(f"{SCRIPT}#script", "kernel 4 of 17")]
    assert "kernel" not in ended.out + ended.err  # only after a minute without a line
