"""`modelbuild fetch`: afterwards a build needs neither the package index nor the places of downloads."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from tests.script_rule import OUTPUT
from tests.wheels import ToolchainWorkspace

DATA = b"photo" * 1000


@pytest.fixture
def far(tools: ToolchainWorkspace, tmp_path: Path) -> Path:
    """Return a folder elsewhere with a file that the script reads."""
    folder = tmp_path / "far"
    folder.mkdir()
    (folder / "photo.png").write_bytes(DATA)
    download = {"name": "photo", "urls": [f"file://{folder}/photo.png"], "sha256": hashlib.sha256(DATA).hexdigest()}
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in download.items())
    text = '[[script]]\nname = "s"\nsrcs = ["s.py", ":photo"]\n'
    reads = "import alpha, glob\n(path,) = glob.glob('.inputs/*/photo.png')\n"
    reads += "result = len(open(path, 'rb').read()) + alpha.X\n"
    tools.write({"a/BUILD.toml": f"{text}[[http_file]]\n{lines}", "a/s.py": reads})
    return folder


def test_a_build_after_fetch_needs_no_network(tools: ToolchainWorkspace, far: Path) -> None:
    tools.add("BUILD.toml", '[[python_toolchain]]\nname = "other"\nlock = "other.lock"\n')
    tools.write({"other.lock": tools.index.pins["gamma"]})
    ended = tools.run("fetch", "//...")
    assert ended.code == 0, ended.err
    assert "made //:tools" in ended.err
    assert "made //:other" in ended.err
    assert "//a:photo" in ended.out
    assert not (tools.root / OUTPUT).exists()
    shutil.rmtree(far)
    shutil.rmtree(tools.index.folder)
    built = tools.run("build", "//a:s")
    assert built.code == 0, built.err
    assert (tools.root / OUTPUT).read_text() == str(len(DATA) + 1)
    again = tools.run("fetch", "//...", "--json")
    assert (again.code, again.statuses) == (0, {"//a:photo#download": "cached"})
    assert "making" not in again.err


def test_a_download_that_fails(tools: ToolchainWorkspace, far: Path) -> None:
    shutil.rmtree(far)
    ended = tools.run("fetch", "//a:s")
    assert ended.code == 1
    assert "//a:photo" in ended.err


def test_nothing_to_fetch(tools: ToolchainWorkspace) -> None:
    ended = tools.run("fetch", "//a:s", "--toolchain=installed")
    assert (ended.code, ended.err) == (0, "")
