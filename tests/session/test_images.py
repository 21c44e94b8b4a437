"""Read-only file systems: an image with other bytes is a change, although all times in it are equal."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.command_runner import MODELBUILD
from tests.script_rule import FILES, OUTPUT, SCRIPT
from tests.session.file_systems import MountRefused, erofs_image, mounted
from tests.workspace_builder import Workspace

READS = "from pathlib import Path\nresult = Path('a/data/x.txt').read_text()\n"
BUILD = '[[script]]\nname = "s"\nsrcs = ["s.py", "data/x.txt"]\n'
LONG_AGO = 1_600_000_000


def state(path: Path) -> tuple[int, ...]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def mounts_images(folder: Path) -> None:
    (folder / "empty").mkdir()
    (folder / "empty.img").write_bytes(erofs_image({}, LONG_AGO))
    with mounted(folder / "empty.img", folder / "empty"):
        pass


def test_another_image_with_equal_times(workspace: Workspace, tmp_path: Path) -> None:
    workspace.write({**FILES, "a/BUILD.toml": BUILD, "a/s.py": READS})
    folder = workspace.root / "a/data"
    folder.mkdir()
    states: list[tuple[int, ...]] = []
    try:
        mounts_images(tmp_path)
    except MountRefused as refused:
        pytest.skip(f"not run: this machine mounts no image: {refused}")
    for text in ("first", "other", "first"):
        image = tmp_path / f"{len(states)}.img"
        image.write_bytes(erofs_image({"x.txt": text.encode()}, LONG_AGO))
        with mounted(image, folder):
            states.append(state(folder / "x.txt"))
            for _ in range(2):
                assert workspace.run("build", SCRIPT).code == 0
                assert (workspace.root / OUTPUT).read_text() == text
    assert len(set(states)) == 1


def test_a_read_only_mount_of_another_file_system_has_nothing_to_do(workspace: Workspace) -> None:
    workspace.write({**FILES, "a/s.py": "result = 1\n"})
    inside = f"mount --bind {workspace.root} {workspace.root} && mount -o remount,bind,ro {workspace.root} && cd . && "
    command = ["unshare", "-Urm", "sh", "-c", f'{inside} cd "$PWD" && exec "$@"', "sh"]
    if subprocess.run([*command, "true"], cwd=workspace.root, check=False, capture_output=True).returncode:
        pytest.skip("not run: this machine allows no mounts in user namespaces")
    for _ in range(3):
        if workspace.run("build", SCRIPT).nothing_to_do:
            break
    ended = workspace.run("build", SCRIPT, program=(*command, *MODELBUILD))
    assert ended.nothing_to_do, ended.err
