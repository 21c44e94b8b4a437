"""Files of the workspace as a build sees them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from modelbuild.errors import BuildError
from modelbuild.session.source_files import Sources
from modelbuild.store.local import open_store


@pytest.mark.parametrize(("path", "why"), [("nowhere", "No such file or directory"), ("folder", "is a folder")])
def test_a_source_of_a_rule_that_is_no_file(tmp_path: Path, path: str, why: str) -> None:
    """A rule may make an artifact of any path."""
    (tmp_path / "folder").mkdir()
    with (
        open_store(tmp_path / "cache") as store,
        pytest.raises(BuildError, match=re.escape(f"{path} can't be read: ") + f".*{why}; expected a file"),
    ):
        Sources(tmp_path, store).entry(path)
