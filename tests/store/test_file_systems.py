"""Mounts whose times prove nothing."""

from __future__ import annotations

import os
from pathlib import Path

from modelbuild.store.file_systems import devices_without_ctimes

MOUNTS = r"""
24 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw,discard
31 24 7:0 / /snap/core\040x ro,nodev,relatime shared:2 master:3 - squashfs /dev/loop0 ro,errors=continue
32 24 0:45 /a - b /home/x rw,relatime - fuse.sshfs host:/ rw,user_id=0
33 24 7:3 / /mnt rw,relatime - vfat /dev/loop3 rw
34 24 0:46 / /tmp ro,relatime - tmpfs squashfs ro
""".lstrip()


def test_devices_are_found_by_the_type_of_their_file_system(tmp_path: Path) -> None:
    (tmp_path / "mounts").write_text(MOUNTS.replace("/a - b", "/a\\040-\\040b"))
    assert devices_without_ctimes(tmp_path / "mounts") == {os.makedev(7, 0), os.makedev(0, 45), os.makedev(7, 3)}
    assert devices_without_ctimes(tmp_path / "missing") == frozenset()
