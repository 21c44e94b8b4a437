"""Files of the workspace as a build sees them."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from modelbuild.errors import BuildError
from modelbuild.session.source_files import Sources
from modelbuild.store.local import open_store
from tests.workspace_builder import Workspace

BUILD = """
[[filegroup]]
name = "both"
srcs = ["small", "large"]
[[filegroup]]
name = "small_one"
srcs = ["small"]
"""


@pytest.mark.parametrize(("path", "why"), [("nowhere", "No such file or directory"), ("folder", "is a folder")])
def test_a_source_of_a_rule_that_is_no_file(tmp_path: Path, path: str, why: str) -> None:
    """A rule may make an artifact of any path."""
    (tmp_path / "folder").mkdir()
    with (
        open_store(tmp_path / "cache") as store,
        pytest.raises(BuildError, match=re.escape(f"{path} can't be read: ") + f".*{why}; expected a file"),
    ):
        Sources(tmp_path, store).entry(path)


def test_a_large_source_has_one_note(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, {"MODELBUILD.toml": "", "BUILD.toml": BUILD, "small": "1"})
    with (workspace.root / "large").open("wb") as file:
        file.truncate(1_000_000_001)  # a hole
    os.utime(workspace.root / "large", (1_700_000_000, 1_700_000_000))
    time.sleep(0.1)  # a file that changed just before a build is read again by the next one
    first = workspace.run("build", "//:both")
    assert first.code == 0, first.err
    (note,) = [line for line in first.err.splitlines() if "is a source of" in line]
    assert re.fullmatch(
        r"note: large is a source of \S+ \S+, read whole .* 'weights' of a model, .* an http_file, .*", note
    )
    workspace.edit("small", "1", "2")
    again = workspace.run("build", "//:both", "//:small_one")
    assert (again.code, "is a source of" in again.err) == (0, False)
