"""Bazel and modelbuild on one cache: neither uses the other's results."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.exhaustive

PROGRAM = Path(sys.prefix, "bazel/node_modules/@bazel/bazel-linux_x64/bazel-2.1.0-linux-x86_64")

# Reads a file with the same bytes as a source of the other workspace, so that one blob is both clients'.
BUILD = """
genrule(name = "made", srcs = ["seed.txt"], outs = ["made.txt"], cmd = "cat $(SRCS) $(SRCS) > $@")
"""


@pytest.fixture(params=["grpc", "http"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return an empty cache that both support: buildbox-casd refuses clients as old as this Bazel."""
    if request.param == "http":
        yield request.getfixturevalue("nginx")
        return
    server = request.getfixturevalue("build_grid").BuildGrid(tmp_path / "buildgrid")
    yield server.address
    server.kill()


@pytest.fixture
def bazel(tmp_path: Path, address: str) -> Callable[[str], str]:
    """Build in a new workspace with only its sources; return Bazel's output."""
    if not PROGRAM.is_file():
        pytest.skip("not run: needs npm")

    def build(name: str) -> str:
        root = tmp_path / name
        root.mkdir()
        for file, text in {"WORKSPACE": "", "BUILD": BUILD, "seed.txt": "seed\n"}.items():
            (root / file).write_text(text)
        cache = f"--remote_cache={address}"
        command = [PROGRAM, f"--output_user_root={tmp_path}/{name}.bazel", "--batch", "build", "//:made", cache]
        done = subprocess.run([*command, "--noshow_progress"], cwd=root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert (root / "bazel-bin/made.txt").read_text() == "seed\nseed\n"
        return done.stderr

    return build


def test_neither_disturbs_the_other(place: Any, address: str, bazel: Callable[[str], str]) -> None:
    alone, one, two = place("alone"), place("one"), place("two")
    alone.build()
    assert "remote cache hit" not in bazel("first")
    assert set(one.build(f"--remote-cache={address}").statuses.values()) == {"ran"}
    assert "1 remote cache hit" in bazel("second")
    assert set(two.build(f"--remote-cache={address}").statuses.values()) == {"cached"}
    assert one.outputs() == two.outputs() == alone.outputs()
