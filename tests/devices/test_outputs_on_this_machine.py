"""--output-dir of a run on a device: outputs replace files whole, and no input."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelbuild.cli.targets.run_on_device import _take_outputs
from modelbuild.errors import UsageError


def test_outputs_replace_files_but_no_input(tmp_path: Path) -> None:
    for name in ("returned", "here"):
        (tmp_path / name).mkdir()
    for name in ("a.npy", "b.npy"):
        (tmp_path / "returned" / name).write_bytes(b"new")
        (tmp_path / "here" / name).write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "here/b.npy")
    for given in (tmp_path / "here/b.npy", tmp_path / "link"):
        with pytest.raises(UsageError, match=r"here/b\.npy is an input of this run; expected another folder"):
            _take_outputs(tmp_path / "returned", tmp_path / "here", [given, tmp_path / "missing"])
        assert [path.read_bytes() for path in sorted((tmp_path / "here").iterdir())] == [b"old", b"old"]
    _take_outputs(tmp_path / "returned", tmp_path / "here", [])
    assert {path.name: path.read_bytes() for path in (tmp_path / "here").iterdir()} == dict.fromkeys(
        ("a.npy", "b.npy"), b"new"
    )
