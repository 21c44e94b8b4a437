"""The store on this machine's disk."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable
from pathlib import Path
from types import TracebackType

from modelbuild.actions import ActionResult, Digest, FileEntry, Material, Tree, Value
from modelbuild.errors import EnvironmentProblem
from modelbuild.paths import MAX_PATH
from modelbuild.store.action_cache import ActionCache
from modelbuild.store.cas import Cas
from modelbuild.store.codec import blobs_of
from modelbuild.store.database import Database
from modelbuild.store.environments import environments
from modelbuild.store.file_digests import FileDigests
from modelbuild.store.files import check_plain, make_folder, open_folder, path_in
from modelbuild.store.gc import Collected, collect, empty_trash
from modelbuild.store.lock import KeyLocks, UseLock
from modelbuild.store.ownership import claim, restore_mark
from modelbuild.store.problems import Warn, explained, warn_on_stderr
from modelbuild.store.schemas import INDEX
from modelbuild.store.stat import StoreStat, measure
from modelbuild.store.verify import VerifiedStore, verify


def open_store(directory: Path, max_size: int | None = None, warn: Warn = warn_on_stderr) -> LocalStore:
    """Open the store in a folder, creating it if needed. Raises EnvironmentProblem if it cannot be created or written,
    and for a folder with other contents than a store's.

    max_size: bytes of blobs above which close() evicts; None: no bound. warn: called, once each, with warnings about a
    cache that works only partly.
    """
    directory = Path(os.path.abspath(directory))
    with explained(directory):
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise EnvironmentProblem(f"{directory} is a file; expected a folder for the cache") from None
        except FileNotFoundError:  # /proc, for example, accepts no folders
            raise EnvironmentProblem(f"{directory} cannot be created; expected a folder for the cache") from None
        if not os.access(directory, os.W_OK | os.X_OK):
            raise EnvironmentProblem(f"{directory} is read-only; expected a writable folder for the cache")
        return LocalStore(directory, max_size, warn)


class LocalStore:
    """Implements Store; see there. Use open_store().

    directory  cas/ blobs, index-*.db actions and file digests, tmp/ files in progress, toolchains/ environments
    scratch    a folder on the blobs' file system for actions' own folders, so that outputs are renamed, not copied;
               the next collection deletes leftovers of killed builds
    files      digests of workspace files
    running    held by the builds that run actions, by the actions' keys
    """

    fetched: Collection[str] = ()

    def __init__(self, directory: Path, max_size: int | None = None, warn: Warn = warn_on_stderr) -> None:
        self.directory = directory
        self.max_size = max_size
        claim(directory)
        self._lock = UseLock(directory / "lock")
        self._lock.share()
        self.running = KeyLocks(directory / "running")
        self._pid = os.getpid()
        make_folder(directory, directory / "cas")
        self._cas = Cas(directory / "cas", self.scratch)
        self._warn = warn
        self._database = Database(directory, INDEX, warn)
        self._actions = ActionCache(self._database)
        self.files = FileDigests(self._database)

    def put_bytes(self, data: bytes) -> Digest:
        with explained(self.directory):
            return self._cas.add_bytes(data)

    def put_file(self, path: Path) -> Digest:
        with explained(self.directory):
            return self._cas.add_file(path).digest

    def put_copy(self, path: Path, executable: bool) -> Digest:
        """Store a copy of a file, or of a link's target. Raises FileNotFoundError."""
        with explained(self.directory):
            return self._cas.add_copy(os.path.realpath(path), executable).digest

    def put_output(self, path: Path) -> Value:
        with explained(self.directory):
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                return self._cas.add_file(path)
            with open_folder(str(path)) as folder:
                files = sorted(_files_in(folder, path.name))
                return Tree(tuple((name, self._add_below(folder, name)) for name in files))

    def _add_below(self, top: int, path: str) -> FileEntry:
        parent, _, name = path.rpartition("/")
        with open_folder(top, parent) as folder:
            return self._cas.add_file(path_in(folder, name))

    def read_bytes(self, digest: Digest) -> bytes:
        with explained(self.directory):
            return self._cas.read(digest)

    def blob_path(self, digest: Digest, executable: bool = False) -> Path:
        with explained(self.directory):
            return Path(self._cas.path(digest, executable))

    def missing(self, digests: Iterable[Digest]) -> set[Digest]:
        return {digest for digest in digests if not self._cas.has(digest)}

    def place(self, value: Value, destination: Path) -> None:
        target = str(destination)
        with explained(self.directory):
            if isinstance(value, FileEntry):
                self._cas.link(value, target)
                return
            for _, entry in value.files:
                self._cas.find(entry.digest)
            os.mkdir(target)
            made = {""}
            for path, entry in value.files:
                folder = path.rpartition("/")[0]
                if folder not in made:
                    os.makedirs(f"{target}/{folder}", exist_ok=True)
                    made.add(folder)
                self._cas.link(entry, f"{target}/{path}")

    def get_action(self, key: str, material: Material | None = None) -> ActionResult | None:
        result = self._actions.get(key)
        if result is None or not all(self._cas.has(digest) for digest in blobs_of(result)):
            return None
        return result

    def put_action(self, key: str, result: ActionResult, material: Material) -> None:
        self._actions.put(key, result, material, self._cas.take_added())

    def stat(self) -> StoreStat:
        """Return the counts and sizes of the cache's contents."""
        return measure(self.directory, self._cas, self._actions, self.max_size)

    def verify(self) -> VerifiedStore:
        """Read every blob and every file of environments, and delete damaged blobs and environments."""
        return verify(self.directory, self._cas, self._actions)

    @property
    def scratch(self) -> Path:
        """Return the folder for temporary files; creates it if it is missing."""
        folder = self.directory / "tmp"
        make_folder(self.directory, folder)
        return folder

    def collect(self) -> Collected:
        """Evict results above the cap and delete unreferenced files, unless other builds use the cache."""
        try:
            return self._collect()
        finally:
            self._lock.share()

    def close(self) -> Collected | None:
        """Release the cache; after a build that exceeded its cap, collect. Does nothing in a forked process.

        All processes that use the store's blobs must have ended before.
        """
        if self._pid != os.getpid():
            return None
        collected = None
        try:
            self._actions.flush()
            restore_mark(self.directory)
            if self._over_cap():
                collected = self._collect()
        except (OSError, EnvironmentProblem) as error:  # the build itself succeeded
            self._warn(f"cache cleanup failed: {error}")
        finally:
            self._database.close()
            self._lock.close()
            self.running.close()
        return collected

    def __enter__(self) -> LocalStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _over_cap(self) -> bool:
        if self.max_size is None or not self._cas.ever_added:
            return False
        total = self._actions.total()
        return total is None or total + sum(each.bytes for each in environments(self.directory)) > self.max_size

    def _collect(self) -> Collected:
        """Collect and release the lock."""
        if not self._lock.try_exclusive():
            return Collected(busy=True)
        self._database.close()  # another build may have started a new database
        with explained(self.directory):
            collected = collect(self.directory, self._cas, self._actions, self.max_size)
            self.files.forget_missing()
            make_folder(self.directory, self.directory / "tmp")
            self._lock.release()
            empty_trash(self.directory)
        return collected


def _files_in(folder: int, shown: str) -> list[str]:
    """Return the paths of all files below an open folder, relative to it. Raises ValueError for anything that is
    neither a file nor a folder, and for a name that is not UTF-8."""
    found = []
    waiting = [""]
    while waiting:
        below = waiting.pop()
        with open_folder(folder, below) as inner, os.scandir(inner) as entries:
            for entry in entries:
                path = f"{below}/{entry.name}" if below else entry.name
                _check_name(path, shown)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                else:
                    check_plain(entry.stat(follow_symlinks=False).st_mode, f"{shown}/{path}")
                    found.append(path)
    return found


def _check_name(path: str, shown: str) -> None:
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        whole = f"{shown}/{path}"
        raise ValueError(f"{whole!r}: the name is not UTF-8") from None
    if size > MAX_PATH:
        raise ValueError(f"{shown}/{path[:80]}...: {size} bytes of path; expected at most {MAX_PATH}")
