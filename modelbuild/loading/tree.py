"""The files of a workspace, for loading. Records every access, so that a later build can check that loading would give
the same result."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from modelbuild.errors import EnvironmentProblem
from modelbuild.loading.package import PACKAGE_FILE
from modelbuild.workspace.toml_document import Document, Stamp, read_document
from modelbuild.workspace.workspace import OUTPUT_FOLDER, WORKSPACE_FILE

# Skipped folders, in addition to hidden folders.
_SKIPPED = frozenset(("__pycache__", "node_modules", OUTPUT_FOLDER))

# A folder that contains one of these files is another package, another workspace, or a Python environment.
BOUNDARIES = frozenset((PACKAGE_FILE, WORKSPACE_FILE, "pyvenv.cfg"))


class FolderStamp(NamedTuple):
    """Equal stamps mean that a folder has the same entries. ctime (which no program can set) and inode are compared
    first; if either differs, the digest of the names decides."""

    ctime_ns: int
    inode: int
    names: str


class Listing(NamedTuple):
    """The names in a folder, sorted: regular files (or links to them), and folders (no links). `links` are the links
    among the files, and links to anything except a regular file: a link's destination can change without the folder's
    ctime. So a new link is another listing, even one that leads nowhere yet."""

    files: tuple[str, ...]
    folders: tuple[str, ...]
    links: tuple[str, ...]
    ctime_ns: int
    inode: int

    def has(self, name: str) -> bool:
        return name in self.files

    def is_boundary(self) -> bool:
        return not BOUNDARIES.isdisjoint(self.files)

    def stamp(self) -> FolderStamp:
        names = os.fsencode("\0".join((*self.files, "", *self.folders, "", *self.links)))
        return FolderStamp(self.ctime_ns, self.inode, hashlib.sha256(names).hexdigest())


def list_folder(root: str, folder: str) -> Listing:
    """List a folder by its absolute path, or its path below the root. Raises EnvironmentProblem."""
    path = os.path.join(root, folder)
    files: list[str] = []
    folders: list[str] = []
    links: list[str] = []
    try:
        status = os.stat(path)  # before the listing: a concurrent change then counts as a change
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in _SKIPPED:
                        folders.append(entry.name)
                    continue
                if entry.is_symlink():
                    links.append(entry.name)
                # DirEntry.is_file() raises an error for a link through a file, or in a circle.
                if os.path.isfile(entry.path):
                    files.append(entry.name)
    except OSError as error:
        raise EnvironmentProblem(f"folder {folder!r} can't be listed: {error.strerror}") from None
    return Listing(
        tuple(sorted(files)), tuple(sorted(folders)), tuple(sorted(links)), status.st_ctime_ns, status.st_ino
    )


class SourceTree:
    """The files below a workspace's root. Paths are relative to it, with '/' separators; '' is the root.

    files    stamps of files that were read, by path
    folders  stamps of folders that were listed, by path
    present  paths where a regular file, or a link to a regular file, was required
    absent   paths where no regular file was required
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._prefix = str(root)
        self.files: dict[str, Stamp] = {}
        self.folders: dict[str, FolderStamp] = {}
        self.present: set[str] = set()
        self.absent: set[str] = set()
        self._marks: dict[str, frozenset[str]] = {}

    def read(self, path: str) -> tuple[Document, dict[str, Any]]:
        document, values, stamp = read_document(self.root, path)
        self.files[path] = stamp
        return document, values

    def list(self, folder: str) -> Listing:
        listing = list_folder(self._prefix, folder)
        if folder not in self.folders:
            self.folders[folder] = listing.stamp()
            self._marks[folder] = BOUNDARIES.intersection(listing.files)
            for name in listing.links:
                (self.present if listing.has(name) else self.absent).add(join(folder, name))
        return listing

    def is_file(self, path: str) -> bool:
        """Return whether there is a regular file, or a link to a regular file."""
        if path not in self.present and path not in self.absent:
            (self.present if os.path.isfile(f"{self._prefix}/{path}") else self.absent).add(path)
        return path in self.present

    def is_marked(self, folder: str, name: str) -> bool:
        """Return whether a folder contains BUILD.toml or MODELBUILD.toml; uses the folder's listing if it is known."""
        marks = self._marks.get(folder)
        return name in marks if marks is not None else self.is_file(join(folder, name))

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(f"{self._prefix}/{path}")

    def packages(self, top: str = "") -> Iterator[str]:
        """Yield every folder with a BUILD.toml from `top` downwards, parents first. Hidden folders, Python
        environments, node_modules, the output tree, other workspaces and links to folders are skipped."""
        waiting = [top]
        while waiting:
            folder = waiting.pop()
            listing = self.list(folder)
            if listing.has("pyvenv.cfg") or (folder and listing.has(WORKSPACE_FILE)):
                continue
            if listing.has(PACKAGE_FILE):
                yield folder
            waiting += [join(folder, name) for name in reversed(listing.folders) if not name.startswith(".")]

    def package_files(self, package: str) -> Iterator[str]:
        """Yield every visible file of a package, relative to it, nearest first, without the files of packages below
        it."""
        waiting = [""]
        for folder in waiting:
            listing = self.list(join(package, folder))
            if folder and listing.is_boundary():
                continue
            yield from (join(folder, name) for name in listing.files if not name.startswith("."))
            waiting += [join(folder, name) for name in listing.folders if not name.startswith(".")]


def join(folder: str, name: str) -> str:
    """Return a path below a folder of the workspace; either may be ''."""
    return f"{folder}/{name}" if folder and name else folder or name
