"""A build with nothing to do: the modules that it imports and the files that it opens, in the command's own process."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

# Runs the command line like the installed script, then prints imported modules and opened files on stderr.
PROGRAM = """
import json, sys
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
from modelbuild.cli import invoke
code = invoke(sys.argv[1:])
print(json.dumps({"code": code, "modules": sorted(sys.modules), "opened": opened}), file=sys.stderr)
"""


def traced(workspace: Any, *arguments: str) -> dict[str, Any]:
    ended = workspace.run(*arguments, program=(sys.executable, "-c", PROGRAM))
    told: dict[str, Any] = json.loads(ended.err.splitlines()[-1])
    return {**told, "out": ended.out, "tops": {name.partition(".")[0] for name in told["modules"]}}


HEAVY = {"torch", "executorch", "click", "networkx", "pydantic", "pydantic_core", "rich", "numpy", "modelbuild_rules"}
# A label, and patterns for which folders are listed.


def test_new_files_in_an_imported_checkout_are_no_change(workspace: Any, tmp_path: Path) -> None:
    """An editable install puts the checkout on Python's path, and builds put folders into the checkout."""
    workspace.write({"MODELBUILD.toml": "", "a/BUILD.toml": '[[filegroup]]\nname = "f"\nsrcs = ["x"]\n', "a/x": ""})
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    path = os.pathsep.join([str(checkout), *filter(None, sys.path)])

    def again() -> bool:
        return "Nothing to do" in workspace.run("build", "//a:f", PYTHONPATH=path).out

    assert not again()
    (checkout / "build/demo").mkdir(parents=True)
    (checkout / "build/demo/out.npy").touch()
    (checkout / "NOTES.md").touch()
    assert again()
    (checkout / "module.py").touch()
    assert not again()


def test_files_with_new_times_and_equal_contents_are_no_change(workspace: Any, example_rules: dict[str, str]) -> None:
    """As after a switch of branches and back."""
    build = '[[checksums]]\nname = "sums"\nsrcs = ["one.txt"]\n'
    workspace.write({**example_rules, "a/BUILD.toml": build, "a/one.txt": "1\n"})
    traced(workspace, "build", "//a/...")
    for name in ("a/one.txt", "a/BUILD.toml"):
        (workspace.root / name).write_text((workspace.root / name).read_text())
    time.sleep(0.1)  # a newer file may change again without a new time, and is read again
    again = traced(workspace, "build", "//a/...")
    assert "Nothing to do: 1 target up to date (1 action)" in again["out"]
    assert not again["tops"] & HEAVY
    read = str(workspace.root / "a/one.txt")
    assert read in again["opened"]
    assert read not in traced(workspace, "build", "//a/...")["opened"]
    (workspace.root / "a/one.txt").write_text("2\n")
    assert "Nothing to do" not in workspace.run("build", "//a/...").out


@pytest.mark.parametrize(
    "change",
    [
        {"a/one.txt": "2\n"},
        {"a/BUILD.toml": ""},
        {"a/new/BUILD.toml": "["},
        {"tools/rules/steps/checksums.py": ""},
        {"MODELBUILD.toml": "["},
        {"modelbuild-out/default/a/sums/sums.sha256": ""},
    ],
    ids=lambda files: "-".join(files).replace("/", "."),
)
def test_it_is_none_after_a_change(workspace: Any, example_rules: dict[str, str], change: dict[str, str]) -> None:
    build = '[[checksums]]\nname = "sums"\nsrcs = ["one.txt"]\n'
    workspace.write({**example_rules, "a/BUILD.toml": build, "a/one.txt": "1\n"})
    workspace.build("//a/...")
    assert (
        workspace.run("build", "//a/...")
        .out.splitlines()[-1]
        .startswith("Nothing to do: 1 target up to date (1 action)")
    )
    for name in change:
        (workspace.root / name).unlink(missing_ok=True)
    workspace.write(change)
    assert "Nothing to do" not in workspace.run("build", "//a/...").out
