"""File systems on which equal times do not prove that a file is unchanged."""

from __future__ import annotations

import os
from pathlib import Path

# The ctimes of these are part of an image, which another image may replace, or are not stored, or are the mtimes.
_WITHOUT_CTIMES = frozenset(
    (
        *("squashfs", "erofs", "iso9660", "udf", "cramfs", "romfs", "fuse.squashfuse", "fuse.squashfuse_ll"),
        *("fuse.erofs", "fuse.erofsfuse", "fuse.fuseiso", "vfat", "msdos", "exfat", "fuse.sshfs"),
    )
)
_MOUNTS = Path("/proc/self/mountinfo")


def devices_without_ctimes(mounts: Path = _MOUNTS) -> frozenset[int]:
    """Return the devices (`st_dev`) of mounted file systems whose ctimes prove nothing. Empty if the kernel lists no
    mounts."""
    try:
        lines = os.fsdecode(mounts.read_bytes()).splitlines()
    except OSError:
        return frozenset()
    # proc_pid_mountinfo(5): the device is the third field, the type follows a dash.
    fields = ((line.split()[2], line.partition(" - ")[2].partition(" ")[0]) for line in lines)
    return frozenset(os.makedev(*map(int, device.split(":"))) for device, kind in fields if kind in _WITHOUT_CTIMES)
