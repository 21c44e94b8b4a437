"""The folder of an action: lay out its declared inputs, and collect its declared outputs."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from modelbuild.actions import Action, Digest, FileEntry, Output, StagedInput, Tree, Value
from modelbuild.paths import HOME, LOCAL, OUTPUTS, STDERR, STDOUT, PathError, check_path, parents
from modelbuild.store import files
from modelbuild.store.interface import Store

# Files of the workspace of at least this size (bytes) are copied into the store once, and hard-linked from there;
# smaller files are copied each time. No input is linked to the workspace, so an action cannot change the user's file,
# an edit cannot reach a running action, and the file's ctime stays the same.
LARGE = 1 << 20


class SandboxProblem(Exception):
    """Inputs changed during their use, or outputs differ from the declaration. The message is one line."""


class Sandbox:
    """One action's folder: it contains the inputs, and is the action's current folder. The action may write only to
    `outputs`, and to `home` for temporary files and files that programs keep. The files `stdout` and `stderr` contain
    its output, if any."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.outputs = folder / OUTPUTS
        self.home = folder / HOME
        self.stdout = folder / STDOUT
        self.stderr = folder / STDERR
        # Folders for inputs, relative to the folder ('' is itself), and the mode of each at creation.
        self._folders: set[str] = set()
        self._mode = 0
        self._laid_out: dict[str, tuple[tuple[int, int], FileEntry]] = {}

    def lay_out(self, action: Action, inputs: tuple[StagedInput, ...], store: Store) -> None:
        """Lay out inputs, and make folders for outputs.

        Raises SandboxProblem if a file of the workspace differs from its digest or a path leaves the folder;
        MissingBlob; OSError.
        """
        _check_paths(action, inputs)
        root = str(self.folder)
        made = self._begin(inputs)
        for folder in (self.outputs, self.home):
            folder.mkdir()
            made.add(str(folder))
        placed: dict[str, Value] = {}
        self._laid_out = {}
        for item in inputs:
            if placed.setdefault(item.path, item.value) != item.value:
                raise ValueError(f"{action.id}: two different inputs at {item.path}")
            target = f"{root}/{item.path}"
            if os.path.exists(target):
                continue
            _make_folders(os.path.dirname(target), made)
            if not self._bring(item, Path(target), store):
                shown = item.path.removeprefix(f"{LOCAL}/")
                raise SandboxProblem(f"{shown} changed during the build; build again")
            files = item.value.files if isinstance(item.value, Tree) else (("", item.value),)
            laid_out = ((f"{target}/{name}" if name else target, entry) for name, entry in files)
            self._laid_out.update((path, (_stamp(path), entry)) for path, entry in laid_out)
        for output in action.outputs:
            path = f"{self.outputs}/{output.path}"
            _make_folders(path if output.kind == "tree" else os.path.dirname(path), made)

    def is_whole(self) -> bool:
        """Return whether the bytes of all laid out files are unchanged. A step can change only their times, and so does
        a check of the cache with the blob that is an input. Other programs may remove files, or write to a blob."""
        try:
            return self.home.is_dir() and all(
                _stamp(path) == stamp or _has_bytes(path, entry) for path, (stamp, entry) in self._laid_out.items()
            )
        except OSError:
            return False

    def _begin(self, inputs: tuple[StagedInput, ...]) -> set[str]:
        """Make the folder or, if it is reused, remove the folders in it that these inputs do not need. Return the
        existing folders."""
        root = str(self.folder)
        wanted = {""}
        # A tree must make its own folders.
        if all(isinstance(item.value, FileEntry) for item in inputs):
            wanted.update(parent for item in inputs for parent in parents(item.path))
        if not self._folders:
            os.mkdir(root)
            self._mode = os.lstat(root).st_mode
        for path in sorted(self._folders - wanted, reverse=True):
            os.rmdir(f"{root}/{path}")
        there = {f"{root}/{path}" for path in self._folders & wanted if path}
        self._folders = wanted
        return there | {root}

    def _bring(self, item: StagedInput, target: Path, store: Store) -> bool:
        """Lay out an input. Return False if it is a file of the workspace that changed."""
        if item.source is not None:
            assert isinstance(item.value, FileEntry)
            try:
                if item.value.digest.size < LARGE:
                    return _copy(item.source, target, item.value)
                if store.missing([item.value.digest]) and not self._store(item.source, item.value, store):
                    return False
            except FileNotFoundError:
                if not target.parent.is_dir():  # the target's folder is missing, not the source
                    raise
                return False
        store.place(item.value, target)
        return True

    def _store(self, source: Path, entry: FileEntry, store: Store) -> bool:
        """Copy a file into the store; return whether it had the expected bytes."""
        copy = self.home / "incoming"
        shutil.copyfile(source, copy)
        copy.chmod(0o555 if entry.executable else 0o444)
        return store.put_file(copy) == entry.digest

    def emptied(self) -> bool:
        """Remove everything except the folders for inputs; return whether these are unchanged, so that another action
        can use them. Folders that an action may write to are never reused: a leftover process might still write
        there."""
        root = str(self.folder)
        found = set()
        pending = [""]
        try:
            while pending:
                path = pending.pop()
                found.add(path)
                folder = f"{root}/{path}" if path else root
                if os.lstat(folder).st_mode != self._mode:
                    return False
                with os.scandir(folder) as entries:
                    inside = [(entry.path, f"{path}/{entry.name}" if path else entry.name) for entry in entries]
                for whole, below in inside:
                    if below in self._folders:
                        pending.append(below)
                        continue
                    files.remove(whole)
                    if os.path.lexists(whole):  # another process is still writing to it
                        return False
        except OSError:
            return False
        return found == self._folders

    def collect(self, action: Action, store: Store) -> tuple[tuple[str, Value], ...]:
        """Store the outputs and return them by name. Raises SandboxProblem if they differ from the declaration, and for
        a symbolic link in an output's path: no file outside the folder is read, moved or changed."""
        declared = {output.path: output for output in action.outputs}
        with _outputs(self.folder, OUTPUTS, "its outputs") as top:
            for output in action.outputs:
                with _parent(top, output) as (folder, name):
                    _check_kind(folder, name, output)
            for path in _strays(top, "", declared):
                raise SandboxProblem(f"step {action.step} wrote '{path}', which is not a declared output")
            try:
                return tuple((output.name, _put(top, output, store)) for output in action.outputs)
            except ValueError as error:
                raise SandboxProblem(f"step {action.step}: {error}") from None

    def printed(self, store: Store) -> tuple[Digest | None, Digest | None]:
        """Store the action's stdout and stderr. Raises SandboxProblem."""
        try:
            first, second = (store.put_file(p) if os.path.lexists(p) else None for p in (self.stdout, self.stderr))
        except ValueError as error:
            raise SandboxProblem(f"cannot store the step's output: {error}") from None
        return first, second


def _stamp(path: str) -> tuple[int, int]:
    status = os.lstat(path)
    return status.st_size, status.st_mtime_ns


def _has_bytes(path: str, entry: FileEntry) -> bool:
    with files.open_plain(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == entry.digest.hash


def _check_paths(action: Action, inputs: tuple[StagedInput, ...]) -> None:
    try:
        for path in (*(item.path for item in inputs), *(output.path for output in action.outputs)):
            check_path(path)
    except PathError as error:
        raise SandboxProblem(f"step {action.step}: {error}") from None


@contextmanager
def _outputs(top: Path | int, path: str, what: str) -> Iterator[int]:
    """Open a folder of outputs. Raises SandboxProblem if it is not the folder that was made for them."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(files.open_folder(top if isinstance(top, int) else str(top), path))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES):
                raise
            problem = f"the step removed, replaced or closed the folder of {what}; expected the step to write into it"
            raise SandboxProblem(problem) from None
        yield folder


@contextmanager
def _parent(top: int, output: Output) -> Iterator[tuple[int, str]]:
    """Yield the open folder of an output, and the output's name in it."""
    folder, _, name = output.path.rpartition("/")
    with _outputs(top, folder, f"its output '{output.name}' ({output.path})") as found:
        yield found, name


def _put(top: int, output: Output, store: Store) -> Value:
    with _parent(top, output) as (folder, name):
        return store.put_output(files.path_in(folder, name))


def _make_folders(path: str, made: set[str]) -> None:
    """Make a folder and its missing parents, up to a folder in `made`; add them to `made`. `made` exists because making
    a folder dominates the cost of laying out few inputs, and an attempt to make an existing folder costs nearly as
    much."""
    missing = []
    while path not in made:
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        with suppress(FileExistsError):  # in a tree that is an input
            os.mkdir(folder)
    made.update(missing)


def _copy(source: Path, target: Path, entry: FileEntry) -> bool:
    """Copy a file; return whether it had the expected bytes."""
    data = source.read_bytes()
    target.write_bytes(data)
    target.chmod(0o555 if entry.executable else 0o444)
    return hashlib.sha256(data).hexdigest() == entry.digest.hash


def _check_kind(folder: int, name: str, output: Output) -> None:
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        raise SandboxProblem(f"the step did not write its output '{output.name}' ({output.path})") from None
    if not (stat.S_ISREG(mode) if output.kind == "file" else stat.S_ISDIR(mode)):
        expected = "a file" if output.kind == "file" else "a folder"
        raise SandboxProblem(f"the step's output '{output.name}' ({output.path}) is not {expected}")


def _strays(folder: int, prefix: str, declared: dict[str, Output]) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            path = prefix + entry.name
            if path in declared:
                continue
            if entry.is_dir(follow_symlinks=False) and any(d.startswith(path + "/") for d in declared):
                with files.open_folder(folder, entry.name) as inner:
                    yield from _strays(inner, path + "/", declared)
            else:
                yield path


def remove(folder: Path) -> None:
    """Remove a folder as far as possible, including read-only folders in it."""
    with suppress(OSError):
        files.remove(str(folder))
