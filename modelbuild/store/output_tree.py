"""Laying out what was asked for below modelbuild-out/, and cleaning that up."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from modelbuild.actions import FileEntry, Value
from modelbuild.errors import EnvironmentProblem
from modelbuild.paths import check_path
from modelbuild.store.digests import digest_bytes
from modelbuild.store.files import remove
from modelbuild.store.interface import Store
from modelbuild.store.lock import alone
from modelbuild.store.problems import explained

# Ours, below the output tree: the lock, temporary files, and for each target a list of its files. Stale files are found
# by that list, not by looking into folders: the folder of //a:b may hold that of //a/b:c.
_STATE = ".modelbuild"


def lay_out(store: Store, root: Path, folder: str, values: Mapping[str, Value]) -> None:
    """Make `root`/`folder` hold these values, by their path in it, and nothing that an earlier call put there.

    Each file appears whole or not at all; files that are already right are not touched. Of two builds at once the
    second waits for the first, so a target's files are always of one build. Raises MissingBlob, and EnvironmentProblem
    where something else is in the way; symbolic links below `root` are not followed.
    """
    check_path(folder)
    files = _flatten(values)
    with explained(root), _held(root):
        manifest = root / _STATE / "outputs" / f"{digest_bytes(folder.encode()).hash[:32]}.json"
        before = _read(manifest)
        if not before >= files.keys():
            _write(manifest, before | files.keys())
        for path in sorted(before - files.keys()):
            _drop(root, f"{folder}/{path}")
        folders: set[str] = set()
        for path, entry in files.items():
            _lay(store, root, f"{folder}/{path}", entry, folders)
        if before != files.keys():
            _write(manifest, set(files))


def clean(root: Path) -> None:
    """Remove everything in an output tree. Waits for a build that is laying out, and leaves what another lays out
    afterwards. What a link points to stays."""
    if not root.is_dir():
        return
    lock = root / _STATE / "lock"
    with explained(root), _held(root):
        for entry in (*root.iterdir(), *(root / _STATE).iterdir()):
            if entry not in (root / _STATE, lock):
                remove(str(entry))
        lock.unlink()
    with suppress(OSError):
        (root / _STATE).rmdir()
        root.rmdir()


@contextmanager
def _held(root: Path) -> Iterator[None]:
    with alone(root / _STATE / "lock"):
        ignore = root / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
        yield


def _flatten(values: Mapping[str, Value]) -> dict[str, FileEntry]:
    files: dict[str, FileEntry] = {}
    for name, value in values.items():
        check_path(name)
        if isinstance(value, FileEntry):
            files[name] = value
        else:
            files.update({f"{name}/{path}": entry for path, entry in value.files})
    return files


def _lay(store: Store, root: Path, path: str, entry: FileEntry, folders: set[str]) -> None:
    target = root / path
    blob = store.blob_path(entry.digest, entry.executable)
    _make_folders(root, path.rpartition("/")[0], folders)
    if _is_copy(target, blob):
        return
    if target.is_dir() and not target.is_symlink():
        raise EnvironmentProblem(f"{target} is a folder, where a file has to go; remove it")
    temporary = root / _STATE / "new"
    remove(str(temporary))  # A killed build's.
    store.place(entry, temporary)
    os.replace(temporary, target)


def _is_copy(target: Path, blob: Path) -> bool:
    """Whether a file is a hard link to a blob, or the untouched copy that place() makes on another file system."""
    try:
        a = os.lstat(target)
    except OSError:
        return False
    b = os.lstat(blob)
    return os.path.samestat(a, b) or (a.st_size, a.st_mtime_ns, a.st_mode) == (b.st_size, b.st_mtime_ns, b.st_mode)


def _make_folders(root: Path, folder: str, made: set[str]) -> None:
    """Raises EnvironmentProblem where a link or a file stands in place of a folder."""
    if folder in made:
        return
    path = root
    for part in folder.split("/"):
        path /= part
        with suppress(FileExistsError):
            path.mkdir()
            continue
        mode = os.lstat(path).st_mode
        if not stat.S_ISDIR(mode):
            kind = "symbolic link" if stat.S_ISLNK(mode) else "file"
            raise EnvironmentProblem(f"{path} is a {kind}, where a folder has to go; remove it")
    made.add(folder)


def _drop(root: Path, path: str) -> None:
    """Remove a file that an earlier call laid out, and the folders that this leaves empty."""
    parents = [root / parent for parent in Path(path).parents if parent.parts]
    if any(parent.is_symlink() for parent in parents):
        return
    with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
        os.unlink(root / path)
    with suppress(OSError):
        for parent in parents:
            parent.rmdir()


def _read(manifest: Path) -> set[str]:
    """Paths laid out before. A list that is not there or not readable is empty."""
    try:
        return {check_path(path) for path in json.loads(manifest.read_bytes())}
    except (OSError, ValueError, TypeError):
        return set()


def _write(manifest: Path, paths: set[str]) -> None:
    if not paths:
        manifest.unlink(missing_ok=True)
        return
    manifest.parent.mkdir(exist_ok=True)
    temporary = manifest.with_suffix(".new")
    temporary.write_text(json.dumps(sorted(paths)))
    os.replace(temporary, manifest)
