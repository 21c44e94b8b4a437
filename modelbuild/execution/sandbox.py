"""The folder of an action: its declared inputs laid out before it runs, its declared outputs taken out after."""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from modelbuild.actions import Action, FileEntry, Output, Value
from modelbuild.execution.interface import StagedInput
from modelbuild.store.interface import Store

OUTPUTS = ".outputs"
HOME = ".home"

# Files of the workspace from this size on (bytes) are copied into the store, once, and hardlinked from there. Neither
# they nor smaller ones, which are copied each time, are linked to the workspace: whatever an action does to an input
# can't reach the user's file, an edit while it runs can't reach the action, and the file's ctime stays as it was.
LARGE = 1 << 20


class SandboxProblem(Exception):
    """Inputs changed while they were used, or outputs are not what was declared. The message is one line."""


class Scratch:
    """A build's own part of the folder where sandboxes are made. What builds that were killed left there is removed."""

    def __init__(self, folder: Path, keep: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        stale: list[tuple[Path, int]] = []
        with _locked(folder / "lock"):
            self.path = Path(tempfile.mkdtemp(prefix="kept-" if keep else "build-", dir=folder.resolve()))
            lock = _try_lock(self.path)
            assert lock is not None
            self._lock = lock
            for other in folder.glob("build-*"):
                if other.name != self.path.name and (left := _try_lock(other)) is not None:
                    stale.append((other, left))
        for other, left in stale:
            remove(other)
            os.close(left)
        self._keep = keep
        self._numbers = itertools.count()
        self._removing = ThreadPoolExecutor(1, "remove")

    def new(self) -> Sandbox:
        return Sandbox(self.path / str(next(self._numbers)))

    def discard(self, sandbox: Sandbox) -> None:
        """Remove it soon, unless it is to be kept: nothing has to wait for that."""
        if not self._keep:
            self._removing.submit(remove, sandbox.folder)

    def close(self) -> None:
        """Remove all of it, unless it is to be kept."""
        self._removing.shutdown(cancel_futures=True)
        if not self._keep:
            remove(self.path)
        os.close(self._lock)


class Sandbox:
    """One action's folder: it holds the inputs and is the action's current folder. The action may write only to
    `outputs` and to `home`, for temporary files and what programs keep. What it printed is in the files `stdout` and
    `stderr`, if anything.

    Making and removing a folder takes as long as forking, on some file systems, so there are few of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.outputs = folder / OUTPUTS
        self.home = folder / HOME
        self.stdout = folder / ".stdout"
        self.stderr = folder / ".stderr"

    def lay_out(self, action: Action, inputs: tuple[StagedInput, ...], store: Store) -> None:
        """Put inputs in place and make room for outputs.

        Raises SandboxProblem when a file of the workspace is not what its digest says, MissingBlob, OSError.
        """
        made = {str(self.folder.parent)}
        for folder in (self.outputs, self.home):
            _make_folders(str(folder), made)
        placed: dict[str, Value] = {}
        for item in inputs:
            if placed.setdefault(item.path, item.value) != item.value:
                raise ValueError(f"{action.id}: two different inputs at {item.path}")
            target = self.folder / item.path
            if target.exists():
                continue
            _make_folders(str(target.parent), made)
            if item.source is not None and not self._bring(item.source, target, item.value, store):
                raise SandboxProblem(f"{item.path} changed during the build; build again")
            if not target.exists():
                store.place(item.value, target)
        for output in action.outputs:
            path = self.outputs / output.path
            _make_folders(str(path if output.kind == "tree" else path.parent), made)

    def _bring(self, source: Path, target: Path, value: Value, store: Store) -> bool:
        """Copy a file of the workspace to its place, or into the store; False when it is not what it was."""
        assert isinstance(value, FileEntry)
        try:
            if value.digest.size < LARGE:
                return _copy(source, target, value)
            if not store.missing([value.digest]):
                return True
            copy = self.home / "incoming"
            shutil.copyfile(source, copy)
            copy.chmod(0o555 if value.executable else 0o444)
            return store.put_file(copy) == value.digest
        except FileNotFoundError:
            return False

    def collect(self, action: Action, store: Store) -> tuple[tuple[str, Value], ...]:
        """Put the outputs into the store. Raises SandboxProblem when they are not what the action declares."""
        declared = {output.path: output for output in action.outputs}
        for output in action.outputs:
            _check_kind(self.outputs / output.path, output)
        for path in _strays(self.outputs, "", declared):
            raise SandboxProblem(f"step {action.step} wrote '{path}', which is not a declared output")
        try:
            return tuple((o.name, store.put_output(self.outputs / o.path)) for o in action.outputs)
        except ValueError as error:
            raise SandboxProblem(f"step {action.step}: {error}") from None


def _make_folders(path: str, made: set[str]) -> None:
    """Make a folder and those above it, up to one of `made`, which is added to. Making one is most of what it takes to
    lay out an action with few inputs, and to be told that it exists not much less."""
    missing = []
    while path not in made:
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        with suppress(FileExistsError):  # in a tree that is an input
            os.mkdir(folder)
    made.update(missing)


def _copy(source: Path, target: Path, entry: FileEntry) -> bool:
    """Copy, and say whether the bytes were those that were expected."""
    data = source.read_bytes()
    target.write_bytes(data)
    target.chmod(0o555 if entry.executable else 0o444)
    return hashlib.sha256(data).hexdigest() == entry.digest.hash


def _check_kind(path: Path, output: Output) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        raise SandboxProblem(f"the step did not write its output '{output.name}' ({output.path})") from None
    if not (stat.S_ISREG(mode) if output.kind == "file" else stat.S_ISDIR(mode)):
        expected = "a file" if output.kind == "file" else "a folder"
        raise SandboxProblem(f"the step's output '{output.name}' ({output.path}) is not {expected}")


def _strays(folder: Path, prefix: str, declared: dict[str, Output]) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            path = prefix + entry.name
            if path in declared:
                continue
            if entry.is_dir(follow_symlinks=False) and any(d.startswith(path + "/") for d in declared):
                yield from _strays(folder / entry.name, path + "/", declared)
            else:
                yield path


def remove(folder: Path) -> None:
    """Remove a folder, also one in which folders were made read-only."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        _open_up(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _open_up(folder: Path) -> None:
    with suppress(OSError):
        folder.chmod(0o700)
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                _open_up(entry)


def _try_lock(folder: Path) -> int | None:
    """A locked descriptor for a build's folder, or None while that build lives."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
