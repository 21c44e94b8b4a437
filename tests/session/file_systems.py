"""Images of file systems that tests mount."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

_BLOCK = 4096
_FOLDER, _FILE = 0o040755, 0o100644


def erofs_image(files: Mapping[str, bytes], time: int) -> bytes:
    """Return an EROFS image with files of at most one block. All its times are `time` (seconds). Block 0 has the
    superblock, 1 the inodes, 2 the names, and the rest the files (https://docs.kernel.org/filesystems/erofs.html)."""
    names = sorted([".", "..", *files])
    numbers = {".": 0, "..": 0} | {name: number for number, name in enumerate(files, 1)}
    offset, entries, text = 12 * len(names), b"", b""
    for name in names:
        entries += struct.pack("<QHBB", numbers[name], offset + len(text), 2 if numbers[name] == 0 else 1, 0)
        text += name.encode()
    inodes = _inode(_FOLDER, len(entries + text), 2, 0)
    data = b""
    for number, content in enumerate(files.values(), 1):
        inodes += _inode(_FILE, len(content), 2 + number, number)
        data += content.ljust(_BLOCK, b"\0")
    count = 3 + len(files)
    start = struct.pack("<IIIBBHQQIIII", 0xE0F5E1E2, 0, 0, 12, 0, 0, count, time, 0, count, 1, 0)
    blocks = (bytes(1024) + start, inodes, entries + text)
    return b"".join(block.ljust(_BLOCK, b"\0") for block in blocks) + data


def _inode(mode: int, size: int, block: int, number: int) -> bytes:
    """Return a compact inode, whose time is that of the image."""
    return struct.pack("<HHHHIIIIHHI", 0, 0, mode, 1, size, 0, block, number, 0, 0, 0)


def mounted(image: Path, folder: Path) -> AbstractContextManager[None]:
    """Mount an EROFS image. Raises MountRefused."""
    return _mount("-t", "erofs", "-o", "ro,loop", str(image), str(folder))


def bound(source: Path, folder: Path) -> AbstractContextManager[None]:
    """Make a folder appear at the place of another. Raises MountRefused."""
    return _mount("--bind", str(source), str(folder))


class MountRefused(Exception):
    """This machine allows no such mount."""


@contextmanager
def _mount(*arguments: str) -> Iterator[None]:
    made = subprocess.run(["mount", *arguments], check=False, capture_output=True, text=True)
    if made.returncode:
        raise MountRefused(made.stderr.strip())
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", arguments[-1]], check=True)
