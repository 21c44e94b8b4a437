"""The cost of a build with nothing to do, in machine-independent counts: modules, files, stats."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.workspace_builder import Workspace

# The installed program, with what it imports beyond Python's own start, and what it opens and stats.
PROGRAM = """
import json, os, sys
before, opened, stats = set(sys.modules), [], [0]
def stat(*given, real=os.stat, **named):
    stats[0] += 1
    return real(*given, **named)
from modelbuild.cli import invoke
def heard(event, given):
    if event == "open" and not isinstance(given[0], int):
        opened.append(os.fsdecode(given[0]))
sys.addaudithook(heard)
os.stat = stat
code = invoke(sys.argv[1:])
told = {"code": code, "opened": opened, "stats": stats[0]}
print(json.dumps({**told, "modules": sorted(set(sys.modules) - before)}), file=sys.stderr)
"""

# Allowed imports of `modelbuild build` with nothing to do.
OURS = {
    "modelbuild",
    "modelbuild.build_record",
    "modelbuild.build_record.record",
    "modelbuild.cli",
    "modelbuild.cli.null_build",
}
SAYING_SO = {"modelbuild.report", "modelbuild.report.text", "modelbuild.wording"}
PYTHONS = {"__future__", "binascii", "itertools"}


class TracedWorkspace(Workspace):
    def __init__(self, folder: Path, files: int) -> None:
        names = [f"f{number}" for number in range(files)]
        target = f"[[filegroup]]\nname = 'some'\nsrcs = {json.dumps(names)}\n"
        super().__init__(folder, {"MODELBUILD.toml": "", "BUILD.toml": target, **{name: name for name in names}})
        for path in self.root.iterdir():
            _settle(path)

    def traced(self, *arguments: str) -> dict[str, Any]:
        ended = self.run(*arguments, program=(sys.executable, "-c", PROGRAM))
        told: dict[str, Any] = json.loads(ended.err.splitlines()[-1])
        assert told["code"] == 0, ended.err[:1000]
        return {**told, "out": ended.out}

    def null(self, *arguments: str) -> dict[str, Any]:
        self.traced(*arguments)
        self.traced(*arguments)  # lists the root for the last time: its time changed when the output tree was made
        return self.traced(*arguments)


def _settle(path: Path) -> None:
    """Wait until the file system's clock has moved on so far that another change of the file would show."""
    import time

    while time.time_ns() <= os.stat(path).st_ctime_ns + 60_000_000:
        time.sleep(0.01)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> TracedWorkspace:
    return TracedWorkspace(tmp_path_factory.mktemp("small"), files=3)


def test_it_imports_next_to_nothing(workspace: TracedWorkspace) -> None:
    told = workspace.null("build", "//:some")
    assert told["out"].splitlines()[-1].startswith("Nothing to do: 1 target up to date")
    assert set(told["modules"]) <= OURS | SAYING_SO | PYTHONS
    assert set(workspace.null("build", "//:some", "--quiet")["modules"]) <= OURS | PYTHONS


def test_it_opens_two_records_and_its_own_modules(workspace: TracedWorkspace) -> None:
    told = workspace.null("build", "//:some", "--quiet")
    below = [path for path in told["opened"] if path.startswith(str(workspace.root))]
    assert [os.path.relpath(path, workspace.root).rpartition("/")[0] for path in below] == [
        "modelbuild-out/.modelbuild/commands",
        "modelbuild-out/.modelbuild/snapshots",
        "",  # the root itself, for stats relative to it
    ]
    others = [path for path in told["opened"] if path not in below and not path.endswith((".pyc", ".py", ".so"))]
    assert others == []


def test_each_file_costs_one_stat(workspace: TracedWorkspace, tmp_path: Path) -> None:
    small = workspace.null("build", "//:some", "--quiet")
    large = TracedWorkspace(tmp_path, files=103).null("build", "//:some", "--quiet")
    # A source that is also an output, as here, is checked in both places.
    assert large["stats"] - small["stats"] == 200
