"""Disks that become full at any moment of a build: it does without or ends with one line, and the next is right."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.command_runner import MODELBUILD

BUILD = """
[[join]]
name = "first"
srcs = ["words"]

[[join]]
name = "second"
srcs = [":first", "words"]
"""
# From a disk without any room to one with room for everything.
SIZES = [4 << 10, 48 << 10, 128 << 10, 192 << 10, 1 << 20]


@pytest.mark.sampled
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("disk", ["cache", "workspace/modelbuild-out"])
def test_a_disk_that_becomes_full(
    make_workspace: Callable[..., Any], rules: Mapping[str, str], disk: str, size: int
) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("not run: needs bubblewrap, which makes a small disk")
    workspace = make_workspace({**rules, "a/BUILD.toml": BUILD, "a/words": "words " * 3000})
    small = workspace.folder / disk
    small.mkdir()
    place = ["bwrap", "--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--size", str(size), "--tmpfs", str(small)]
    ended = workspace.run("build", "//a/...", program=(*place, *MODELBUILD))
    errors = [line for line in ended.err.splitlines() if line.startswith(("error:", "internal error"))]
    assert ended.code in (0, 36), ended.err
    assert len(errors) == (ended.code != 0)
    assert all("No space left" in line or "no space left" in line for line in errors)
    assert (ended.code == 0) or size < SIZES[-1]
    if disk != "cache":  # parts of which stay, beside removed outputs
        workspace.check("//a/...")
