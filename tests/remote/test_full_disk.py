"""Caches on a full disk: a build continues without them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.command_runner import MODELBUILD


def notices(text: str) -> list[str]:
    return [line for line in text.splitlines() if "remote cache" in line]


def test_a_server_with_a_full_disk_fails_no_build(place: Any, full_cache: str) -> None:
    plain = place("plain")
    plain.build()
    for name in ("one", "two"):
        made = place(name)
        ended = made.build(f"--remote-cache={full_cache}")
        assert ended.statuses["//a:made#blobs"] == "ran"  # because its output is too big
        assert made.outputs() == plain.outputs()
        (said,) = notices(ended.err)
        assert "results of this build stay here" in said


def test_a_folder_on_a_full_disk_fails_no_build(
    place: Any, tmp_path: Path, full: Callable[[Path, int], list[str]]
) -> None:
    plain, one = place("plain"), place("one")
    plain.build()
    (tmp_path / "objects").mkdir()
    program = (*full(tmp_path / "objects", 400_000), *MODELBUILD)
    ended = one.run("build", "//a:all", f"--remote-cache=file://{tmp_path}/objects", program=program)
    assert ended.code == 0, ended.err
    assert one.outputs() == plain.outputs()
    (said,) = notices(ended.err)
    assert "No space left" in said
    assert "results of this build stay here" in said
