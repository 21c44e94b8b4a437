"""Compare files with the files of a commit by content, regardless of git's index, ignored files and filters."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from typing import IO

# A file in Git LFS: the commit contains a pointer with the file's SHA-256.
_POINTER = re.compile(rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\n")
_POINTER_SIZE = 1024  # bytes; pointers are shorter
_CHUNK = 1 << 20
# Replacement objects of a clone are not the commit's.
_GIT = ("git", "--no-replace-objects", "-C")


def differing(top: str, commit: str, files: Mapping[str, str]) -> list[str]:
    """Return the files that are not in a commit with these SHA-256, by path below `top`, the top of the repository.

    A file equals a blob with the same bytes, or with the pointer of Git LFS to these bytes; a link of the commit is
    followed in the commit. Other filters, such as line ends, make a difference: a clone without them has other bytes. A
    file of a submodule is compared with the submodule's commit. Every file differs if git fails.
    """
    found = dict(_committed(top, commit, files))
    wrong = [path for path, sha256 in files.items() if sha256 not in found.get(path, ())]
    if not wrong:
        return []
    for module, own in _submodules(top, commit):
        inside = {path.removeprefix(f"{module}/"): files[path] for path in wrong if path.startswith(f"{module}/")}
        if inside:
            still = {f"{module}/{path}" for path in differing(f"{top}/{module}", own, inside)}
            wrong = [path for path in wrong if path.removeprefix(f"{module}/") not in inside or path in still]
    return wrong


def _committed(top: str, commit: str, paths: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the SHA-256 of each file of a commit: of its blob, and of the file that the blob points to."""
    # A request is a line, so a name with a line break cannot be asked for, and differs.
    asked = [path for path in paths if "\n" not in path]
    command = [*_GIT, top, "cat-file", "--batch", "--follow-symlinks"]
    try:
        git = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return
    with git:
        assert git.stdin is not None
        assert git.stdout is not None
        for path in asked:
            try:
                git.stdin.write(os.fsencode(f"{commit}:{path}\n"))
                git.stdin.flush()
            except OSError:  # git has ended
                return
            yield path, _answer(git.stdout)


def _answer(output: IO[bytes]) -> tuple[str, ...]:
    header = output.readline().split()
    if len(header) < 2 or not header[-1].isdigit():  # missing
        return ()
    size, digest, start = int(header[-1]), hashlib.sha256(), b""
    left = size
    while left and (chunk := output.read(min(left, _CHUNK))):
        start = start or chunk
        digest.update(chunk)
        left -= len(chunk)
    output.read(1)
    if left or len(header) != 3 or header[1] != b"blob":  # a folder, or a link that leads out of the commit
        return ()
    pointer = _POINTER.match(start) if size < _POINTER_SIZE else None
    return digest.hexdigest(), *([pointer[1].decode()] if pointer else [])


def _submodules(top: str, commit: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the commit of each submodule."""
    try:
        command = [*_GIT, top, "ls-tree", "-r", "-z", "--full-tree", commit]
        done = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    except OSError:
        return
    for line in os.fsdecode(done.stdout).split("\0")[:-1]:
        facts, _, path = line.partition("\t")
        mode, _, name = facts.split(" ")
        if mode == "160000":
            yield path, name
