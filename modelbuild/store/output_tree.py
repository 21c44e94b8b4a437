"""Lay out requested outputs in modelbuild-out/, and clean it."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from modelbuild.actions import FileEntry, Value
from modelbuild.errors import EnvironmentProblem
from modelbuild.paths import check_path
from modelbuild.store.cas import at_second, is_sealed
from modelbuild.store.digests import digest_bytes
from modelbuild.store.files import ATTEMPTS, make_folder, open_plain, remove
from modelbuild.store.interface import Store
from modelbuild.store.lock import exclusive
from modelbuild.store.problems import explained
from modelbuild.times import below_second

# modelbuild's own folder in the output tree: the lock, temporary files, and for each target a list of its files and of
# its empty folders (with a slash at the end). Stale files are found by that list, not by listing folders: the folder of
# //a:b may contain the folder of //a/b:c.
_STATE = ".modelbuild"
_IGNORE = ".gitignore"
_IGNORED = "*\n"
OWN_NAMES = (_STATE, _IGNORE)
# Everything in modelbuild's own folder but the lock.
_IN_STATE = ("outputs", "snapshots", "commands", "failures", "new")


class OutputStamp(NamedTuple):
    """An equal stamp means that an output is unchanged. It has no ctime, which moves with each hard link to the same
    blob, and of the mtime only the part below the second: laying out such a link moves the rest."""

    size: int
    below_second: int
    inode: int
    mode: int


def make_root(root: Path) -> None:
    """Create the folder of an output tree if needed. Raises EnvironmentProblem if it is not writable."""
    with explained(root):
        make_folder(root, root)
    if not os.access(root, os.W_OK | os.X_OK):
        raise EnvironmentProblem(f"{root}: read-only; expected a writable folder for outputs")


def lay_out(
    store: Store, root: Path, folder: str, values: Mapping[str, Value], whole: bool = True
) -> dict[str, OutputStamp]:
    """Make `root`/`folder` contain exactly these values, by their path in it, and nothing from an earlier call. Returns
    the stamp of each file by its path below `root`. Unless the values are the `whole` of the target's files, all others
    stay if these files are there already: then they belong together.

    Each file appears complete or not at all; correct files are not touched. The second of two concurrent builds waits
    for the first, so a target's files are always from one build. A new file has the time at which it was laid out.
    Raises MissingBlob, and EnvironmentProblem if something that modelbuild did not lay out is in the way; symbolic
    links below `root` are not followed.
    """
    check_path(folder)
    files, empty = _flatten(values)
    for _ in range(ATTEMPTS):
        with suppress(FileNotFoundError), explained(root), _held(root):
            return _lay_out(store, root, folder, files, empty, whole)
    raise EnvironmentProblem(f"{root} is being removed while outputs are laid out there; build again")


def _lay_out(
    store: Store, root: Path, folder: str, files: Mapping[str, FileEntry], empty: Collection[str], whole: bool
) -> dict[str, OutputStamp]:
    """Lay out under the lock. Raises FileNotFoundError if another process removes files meanwhile."""
    manifest = _manifest(root, folder)
    before = _read(manifest)
    now = {*files, *(f"{path}/" for path in empty)}
    if not whole and now <= before and all(_is_laid(store, root / folder / name, each) for name, each in files.items()):
        now = before
    for path in sorted(files.keys() - before):
        _check_free(root / folder / path)
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
    return {f"{folder}/{path}": _stamp(os.lstat(root / folder / path)) for path in (*files, *empty)}


def _stamp(status: os.stat_result) -> OutputStamp:
    return OutputStamp(status.st_size, below_second(status.st_mtime_ns), status.st_ino, status.st_mode)


def clean(root: Path) -> list[str]:
    """Remove the files in an output tree that builds laid out, and return the paths of all others, which stay. Waits
    for a build that is laying out; the outputs of later builds stay. Raises EnvironmentProblem for a root that is a
    symbolic link: nothing is removed through links."""
    if root.is_symlink():
        raise EnvironmentProblem(f"{root} is a symbolic link; expected a folder, since clean follows no links")
    if (root / _STATE).is_dir() and not (root / _STATE).is_symlink():
        with suppress(FileNotFoundError), explained(root), _held(root):
            _clean(root)
        with suppress(OSError):
            (root / _STATE).rmdir()
            root.rmdir()
    return [os.path.relpath(path, root) for path in _walk(root) if not os.path.isdir(path) or os.path.islink(path)]


def _clean(root: Path) -> None:
    """Remove the files in all manifests, then the manifests and modelbuild's other own files."""
    for path in _walk(root):
        folder = os.path.relpath(path, root)
        for each in sorted(_read(_manifest(root, folder))):
            _drop(root, f"{folder}/{each}")
    for name in _IN_STATE:
        remove(str(root / _STATE / name))
    with suppress(OSError), open_plain(str(root / _IGNORE)) as ignore:
        if ignore.readall() == _IGNORED.encode():
            (root / _IGNORE).unlink()
    (root / _STATE / "lock").unlink()


def _walk(root: Path) -> list[str]:
    """Return the paths of everything in an output tree but modelbuild's own folder; follows no symbolic link."""
    found: list[str] = []
    for top, folders, files in os.walk(root):
        if top == str(root):
            folders[:] = [name for name in folders if name != _STATE]
        found += (os.path.join(top, name) for name in (*folders, *files))
    return sorted(found)


def _manifest(root: Path, folder: str) -> Path:
    """Return the path of the list of files that were laid out in a folder."""
    return root / _STATE / "outputs" / f"{digest_bytes(os.fsencode(folder)).hash[:32]}.json"


def keep_failure(root: Path, name: str, text: str) -> str:
    """Write the output of a failed action to a file in modelbuild's own folder, replacing the output of an earlier
    failure. Return the file's path as the user may type it in the workspace, or why there is no file."""
    folder = root / _STATE / "failures"
    short = name if len(name) <= 100 else f"{name[:80]}~{digest_bytes(name.encode()).hash[:12]}"
    target, temporary = folder / f"{short}.txt", folder / f"{short}.{os.getpid()}.new"
    try:
        make_folder(root, folder)
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
        os.replace(temporary, target)
    except OSError as error:
        return f"not kept, {error.strerror}"
    return str(target.relative_to(root.parent))


@contextmanager
def _held(root: Path) -> Iterator[None]:
    with exclusive(root / _STATE / "lock", root):
        # A link would be followed to a file outside the tree.
        with suppress(FileExistsError), open(root / _IGNORE, "x") as ignore:
            ignore.write(_IGNORED)
        yield


def _flatten(values: Mapping[str, Value]) -> tuple[dict[str, FileEntry], list[str]]:
    """Return all files by path, and the folders without files."""
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
    _make_folders(root, path.rpartition("/")[0], folders)
    if _is_laid(store, target, entry):
        return
    if target.is_dir() and not target.is_symlink():
        raise EnvironmentProblem(f"{target} is a folder in the place of an output file; remove it")
    temporary = root / _STATE / "new"
    remove(str(temporary))  # from a killed build
    store.place(entry, temporary)
    # Without a new time, `cp -u`, rsync and make would take an older result for an unchanged file.
    with suppress(PermissionError):  # a link to another user's blob
        now = time.time_ns()
        os.utime(temporary, ns=(now, at_second(os.stat(temporary).st_mtime_ns, now)))
    os.replace(temporary, target)


def _is_laid(store: Store, target: Path, entry: FileEntry) -> bool:
    return _is_copy(target, store.blob_path(entry.digest, entry.executable))


def _check_free(target: Path) -> None:
    """Raise EnvironmentProblem for a file that is not an output: no manifest lists it, and it lacks the mark of its
    contents."""
    if os.path.lexists(target) and not target.is_dir() and not is_sealed(str(target)):
        raise EnvironmentProblem(f"{target} is not a file that modelbuild laid out; remove it")


def _is_copy(target: Path, blob: Path) -> bool:
    """Return whether a file is a hard link to a blob, or an unchanged copy from place() on another file system."""
    try:
        a = os.lstat(target)
    except OSError:
        return False
    b = os.lstat(blob)
    return os.path.samestat(a, b) or _stamp(a)._replace(inode=0) == _stamp(b)._replace(inode=0)


def _make_folders(root: Path, folder: str, made: set[str]) -> None:
    """Make folders. Raises EnvironmentProblem if a link or a file is in the place of a folder."""
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
            raise EnvironmentProblem(f"{path} is a {kind} in the place of a folder; remove it")
    made.add(folder)


def _drop(root: Path, path: str) -> None:
    """Remove a file that an earlier call laid out (or an empty folder, for a path with a slash at the end), and folders
    that become empty."""
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
    """Return the paths laid out before; empty if the list is missing or unreadable."""
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
