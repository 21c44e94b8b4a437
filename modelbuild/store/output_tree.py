"""Laying out what was asked for below modelbuild-out/, and cleaning that up."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from modelbuild.actions import FileEntry, Value
from modelbuild.errors import EnvironmentProblem
from modelbuild.paths import check_path
from modelbuild.store.digests import digest_bytes
from modelbuild.store.files import ATTEMPTS, make_folder, open_plain, remove
from modelbuild.store.interface import Store
from modelbuild.store.lock import alone
from modelbuild.store.problems import explained

# Ours, below the output tree: the lock, temporary files, and for each target a list of its files, and of its empty
# folders with a slash behind each. Stale files are found by that list, not by looking into folders: the folder of //a:b
# may hold that of //a/b:c.
_STATE = ".modelbuild"
_IGNORE = ".gitignore"
OWN_NAMES = (_STATE, _IGNORE)


class Laid(NamedTuple):
    """Shows that a file is as it was laid out. Not its ctime, which moves with each hard link to the same blob."""

    size: int
    mtime_ns: int
    inode: int
    mode: int


def make_root(root: Path) -> None:
    """Make the folder of an output tree, if need be. Raises EnvironmentProblem where nothing can be laid out in it."""
    with explained(root):
        make_folder(root, root)
    if not os.access(root, os.W_OK | os.X_OK):
        raise EnvironmentProblem(f"{root}: read-only; expected a folder for outputs that can be written to")


def lay_out(store: Store, root: Path, folder: str, values: Mapping[str, Value]) -> dict[str, Laid]:
    """Make `root`/`folder` hold these values, by their path in it, and nothing that an earlier call put there. Returns
    each file as it is then, by its path below `root`.

    Each file appears whole or not at all; files that are already right are not touched. Of two builds at once the
    second waits for the first, so a target's files are always of one build. Raises MissingBlob, and EnvironmentProblem
    where something else is in the way; symbolic links below `root` are not followed.
    """
    check_path(folder)
    files, empty = _flatten(values)
    for _ in range(ATTEMPTS):
        with suppress(FileNotFoundError), explained(root), _held(root):
            return _lay_out(store, root, folder, files, empty)
    raise EnvironmentProblem(f"{root} is being removed while outputs are laid out there; build again")


def _lay_out(
    store: Store, root: Path, folder: str, files: Mapping[str, FileEntry], empty: Collection[str]
) -> dict[str, Laid]:
    """Raises FileNotFoundError when somebody else removes files meanwhile."""
    manifest = root / _STATE / "outputs" / f"{digest_bytes(folder.encode()).hash[:32]}.json"
    before = _read(manifest)
    now = {*files, *(f"{path}/" for path in empty)}
    if not before >= now:
        _write(root, manifest, before | now)
    for path in sorted(before - now):
        _drop(root, f"{folder}/{path}")
    folders: set[str] = set()
    for path, entry in files.items():
        _lay(store, root, f"{folder}/{path}", entry, folders)
    for path in empty:
        _make_folders(root, f"{folder}/{path}", folders)
    if before != now:
        _write(root, manifest, now)
    return {f"{folder}/{path}": _laid(root / folder / path) for path in (*files, *empty)}


def _laid(path: Path) -> Laid:
    status = os.lstat(path)
    return Laid(status.st_size, status.st_mtime_ns, status.st_ino, status.st_mode)


def clean(root: Path) -> None:
    """Remove everything in an output tree. Waits for a build that is laying out, and leaves what another lays out
    afterwards. What a link points to stays."""
    if not root.is_dir():
        return
    lock = root / _STATE / "lock"
    with suppress(FileNotFoundError), explained(root), _held(root):
        for entry in (*root.iterdir(), *(root / _STATE).iterdir()):
            if entry not in (root / _STATE, lock):
                remove(str(entry))
        lock.unlink()
    with suppress(OSError):
        (root / _STATE).rmdir()
        root.rmdir()


@contextmanager
def _held(root: Path) -> Iterator[None]:
    with alone(root / _STATE / "lock", root):
        # A link would be followed, to a file that is not ours.
        with suppress(FileExistsError), open(root / _IGNORE, "x") as ignore:
            ignore.write("*\n")
        yield


def _flatten(values: Mapping[str, Value]) -> tuple[dict[str, FileEntry], list[str]]:
    """All files by path, and the folders in which there is none."""
    files: dict[str, FileEntry] = {}
    for name, value in values.items():
        check_path(name)
        if isinstance(value, FileEntry):
            files[name] = value
        else:
            files.update({f"{name}/{path}": entry for path, entry in value.files})
    return files, [name for name, value in values.items() if not isinstance(value, FileEntry) and not value.files]


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
    """Remove a file that an earlier call laid out, or, of a path with a slash behind it, an empty folder, and the
    folders that this leaves empty."""
    folders = [root / parent for parent in Path(f"{path}_").parents if parent.parts]
    if any(folder.is_symlink() for folder in folders):
        return
    if not path.endswith("/"):
        with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            os.unlink(root / path)
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _read(manifest: Path) -> set[str]:
    """Paths laid out before. A list that is not there or not readable is empty."""
    try:
        with open_plain(str(manifest)) as file:
            paths: list[str] = json.loads(file.readall())
        return {path for path in paths if check_path(path.removesuffix("/"))}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return set()


def _write(root: Path, manifest: Path, paths: set[str]) -> None:
    if not paths:
        remove(str(manifest))
        return
    make_folder(root, manifest.parent)
    temporary = manifest.with_suffix(".new")
    remove(str(temporary))
    temporary.write_text(json.dumps(sorted(paths)))
    try:
        os.replace(temporary, manifest)
    except IsADirectoryError:
        remove(str(manifest))
        os.replace(temporary, manifest)
