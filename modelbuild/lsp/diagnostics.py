"""The errors of a BUILD file, found as a build finds them: one error of the file itself, or one error of each of its
targets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TypeAlias

from modelbuild.errors import LoadingError, ModelbuildError
from modelbuild.lsp.navigation import DocumentPlace
from modelbuild.lsp.places import Span, span_at
from modelbuild.lsp.snapshot import WorkspaceSnapshot, build_file, package_of

# Places, each with the message of an error.
Errors: TypeAlias = list[tuple[DocumentPlace, str]]
# By the path of a BUILD file.
Found: TypeAlias = dict[str, Errors | ModelbuildError]


class Search(threading.Thread):
    """A search for the errors of BUILD `files`, in a snapshot of its own, which `open_snapshot` returns. The result
    of `done` has the errors of each file by path, or the error because of which the workspace does not load. Then the
    thread reads the other packages, so that completion has them. Set `over` to end it early."""

    def __init__(
        self,
        files: Collection[str],
        open_snapshot: Callable[[], WorkspaceSnapshot],
        loop: asyncio.AbstractEventLoop,
        done: asyncio.Future[Found],
    ) -> None:
        super().__init__(name="diagnose", daemon=True)
        self.over = threading.Event()
        self._files, self._open_snapshot, self._loop, self._done = files, open_snapshot, loop, done

    def run(self) -> None:
        found: Found = {}
        snapshot: WorkspaceSnapshot | None = None
        try:
            snapshot = self._open_snapshot()
            for path in self._files:
                found[path] = diagnose(snapshot, package_of(path), self.over.is_set)
                snapshot.package(package_of(path))  # completion has it as soon as its errors are reported
        except ModelbuildError as error:
            found = dict.fromkeys(self._files, error)
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._finish, found)
        for _ in snapshot.packages() if snapshot is not None else ():
            if self.over.is_set() or self._loop.is_closed():
                return

    def _finish(self, found: Found) -> None:
        if not self._done.done():
            self._done.set_result(found)


def diagnose(snapshot: WorkspaceSnapshot, package: str, over: Callable[[], bool]) -> Errors:
    """Return the errors of a package's targets, each once with its place, which may be in another file. Stops early if
    `over` returns true."""
    try:
        targets = list(snapshot.loader.package(package).targets.values())
    except ModelbuildError as error:
        return [(_place(snapshot, package, error), error.message)]
    analyzer = snapshot.analyzer()
    found: dict[tuple[DocumentPlace, str], None] = {}
    for target in targets:
        if over():
            break
        try:
            analyzer.analyze(target.label)
        except ModelbuildError as error:
            found[_place(snapshot, package, error), error.message] = None
    return list(found)


def _place(snapshot: WorkspaceSnapshot, package: str, error: ModelbuildError) -> DocumentPlace:
    """Return the place of an error; if it has no place, the beginning of the package's BUILD file."""
    if not isinstance(error, LoadingError) or error.location is None:
        return DocumentPlace(build_file(package), Span(0, 0, 0, 1))
    path = error.location.path
    text = snapshot.texts.get(path)
    if text is None:
        try:
            text = (snapshot.workspace.root / path).read_text(errors="replace")
        except OSError:
            text = ""
    return DocumentPlace(path, span_at(text, error.location))
