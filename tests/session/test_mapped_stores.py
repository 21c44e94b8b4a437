"""Stores through a shared mapping: --verify-sources finds those that move no time."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from tests.script_rule import FILES, OUTPUT, SCRIPT
from tests.workspace_builder import Workspace

READS = "from pathlib import Path\nresult = Path('a/weights').read_text()\n"
BUILD = '[[script]]\nname = "s"\nsrcs = ["s.py", "weights"]\n'


def times(path: Path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_mtime_ns, status.st_ctime_ns


def test_sources_are_read_on_request(workspace: Workspace) -> None:
    workspace.write({**FILES, "a/BUILD.toml": BUILD, "a/s.py": READS, "a/weights": "old"})
    path, out = workspace.root / "a/weights", workspace.root / OUTPUT
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[0] = ord("x")  # moves the times; later stores do not, until the page is on the disk
        for _ in range(5):
            if workspace.run("build", SCRIPT).nothing_to_do:
                break
        before = times(path)
        mapped[:] = b"new"
        if times(path) != before:
            pytest.skip("not run: this file system moves the time with each store")
        assert workspace.run("build", "//...").code == 0
        ended = workspace.run("build", SCRIPT, "--nobuild", "--verify-sources")
        assert "1 action" in ended.out, ended.out
        assert workspace.run("build", SCRIPT, "--verify-sources").code == 0
        assert out.read_text() == "new"
        assert times(path) == before
        # Records of other requests are gone, and the command is not answered from a record.
        out.unlink()
        assert workspace.run("build", "//...").code == 0
        assert out.read_text() == "new"
        assert not workspace.run("build", SCRIPT, "--verify-sources").nothing_to_do
