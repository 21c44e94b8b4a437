"""A build with nothing to do checks everything that a build from scratch would read and lay out."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from modelbuild.store.output_tree import OWN_NAMES
from tests.powerless import AS_USER
from tests.session.checked_workspace import CheckedWorkspace

JOINED = """
[[join]]
name = "joined"
srcs = ["read", "tool"]
data = ["unread", ":group"]

[[filegroup]]
name = "group"
srcs = ["grouped"]

[[join]]
name = "nothing"
"""
FILES = {"a/BUILD.toml": JOINED, "a/read": "read\n", "a/tool": "tool\n", "a/unread": "unread\n", "a/grouped": ""}
OUT = "modelbuild-out/default/a/joined"
# Runs a command that replaces an output before it saves its record, as another build does that ends meanwhile.
LATE = f"""
import os, sys
from modelbuild.build_record.snapshots import Snapshot
from modelbuild.cli import invoke

save = Snapshot.save

def late(*given):
    with open("{OUT}/other", "w") as other:
        other.write("another build's\\n")
    os.replace("{OUT}/other", "{OUT}/joined.txt")
    save(*given)

Snapshot.save = late
sys.exit(invoke(sys.argv[1:]))
"""


@pytest.fixture
def workspace(make_workspace: Callable[..., Any], rules: Mapping[str, str]) -> Any:
    made = make_workspace({**rules, **FILES})
    (made.root / "a/tool").chmod(0o755)
    made.nothing_to_do("//a/...")
    made.nothing_to_do("//a:joined")  # this lists no folder
    return made


def replaced(root: Path) -> None:
    (root / "a/unread").unlink()
    (root / "a/unread").mkdir()


@pytest.mark.sampled
@pytest.mark.parametrize("with_a_source", [False, True], ids=["alone", "and a source changed"])
@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "a/unread").unlink(),
        lambda root: (root / "a/grouped").unlink(),
        lambda root: (root / "a/read").unlink(),
        replaced,
    ],
    ids=["data", "a file of a group", "a source", "a folder in its place"],
)
def test_a_file_that_is_gone_is_missed_though_no_action_reads_it(
    workspace: Any, change: Callable[[Path], None], with_a_source: bool
) -> None:
    change(workspace.root)
    if with_a_source:
        (workspace.root / "a/tool").write_text("another tool\n")
    ended = workspace.check("//a:joined")
    assert (ended.code, len(ended.errors)) == (3, 1)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "damage",
    [
        lambda out: (out / "joined.txt").unlink(),
        lambda out: (out / "joined.parts/0/read").unlink(),
        lambda out: (out / "joined.parts/0/read").write_text("other"),
        lambda out: (out / "joined.parts/1/tool").chmod(0o644),
        lambda out: (out / "joined.txt").chmod(0o755),
        lambda out: os.truncate(out / "joined.parts/1/tool", 0),
    ],
    ids=["gone", "gone from a folder", "another in a folder", "not executable", "executable", "empty"],
)
def test_each_file_of_an_output_is_vouched_for(workspace: Any, damage: Callable[[Path], None]) -> None:
    before = workspace.built("//a/...").outputs
    damage(workspace.root / OUT)
    ended = workspace.built("//a/...")
    assert not ended.nothing_to_do
    assert ended.outputs == before == workspace.afresh("//a/...").outputs
    workspace.nothing_to_do("//a/...")


def test_concurrent_outputs_of_another_build_are_not_vouched_for(workspace: CheckedWorkspace) -> None:
    """It comes between this build's outputs and its record."""
    made = workspace.root / OUT / "joined.txt"
    workspace.write({"a/read": "READ\n"})
    workspace.settle()
    assert workspace.run("build", "//a/...", program=(*AS_USER, sys.executable, "-c", LATE)).code == 0
    assert made.read_text() == "another build's\n"
    workspace.check("//a/...")
    assert made.read_text() == "READ\ntool\n"


@pytest.mark.parametrize("name", ["default", ".modelbuild", ".gitignore"])
def test_no_device_shares_the_outputs_of_another_configuration(make_workspace: Callable[..., Any], name: str) -> None:
    workspace = make_workspace(
        {
            "BUILD.toml": f"""
[[device_target]]
name = "{name}"
arch = "x86_64"

[[filegroup]]
name = "chosen"
srcs = {{ select = {{ "//:{name}" = ["device/file"], default = ["none/file"] }} }}
""",
            "device/file": "for the device\n",
            "none/file": "for none\n",
        }
    )
    for _ in range(2):
        plain, device = workspace.check("//:chosen"), workspace.check("//:chosen", f"--device=//:{name}")
        assert len({path.split("/")[1] for path in (*plain.outputs, *device.outputs)} - {*OWN_NAMES}) == 2
        assert {*plain.outputs.values(), *device.outputs.values()} == {
            (b"for none\n", False),
            (b"for the device\n", False),
        }
        assert plain.outputs == workspace.built("//:chosen").outputs
