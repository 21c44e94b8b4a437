"""Publish to an object store or a folder: the files at their paths, documents next to them, and manifest.json last.

manifest.json is the manifest that a registry would get, so the digest is the same everywhere. Files that modelbuild
did not publish there are neither replaced nor deleted: a manifest.json of modelbuild lists its files, and so does the
record of an interrupted publication.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from modelbuild.errors import EnvironmentProblem
from modelbuild.publish.content import Content, Published, PublishedFile, PublishError
from modelbuild.publish.manifest import (
    MANIFEST_FILE,
    check_names,
    digest_of,
    is_manifest,
    is_path,
    manifest_of,
    written,
)
from modelbuild.publish.places import Folder, ObjectStore, Place
from modelbuild.remote.messages import missing_extra
from modelbuild.remote.object_store import open_object_store
from modelbuild.remote.problems import RemoteProblem
from modelbuild.workspace.remote_address import Address

# The record of a publication that has begun: the paths of its files, and of the files that it replaces.
RECORD = ".modelbuild-publishing.json"
_RETRIES = 5
_SECONDS = 60.0


def publish_store(content: Content, address: Address, replace: bool, say: Callable[[str], None]) -> Published:
    """Write the files unless they are there. Raises PublishError for a store that cannot be used, for other published
    files there, unless replacing, and for files there that modelbuild did not publish. Raises EnvironmentProblem for a
    folder that cannot be written."""
    check_names(content)
    try:
        return _Publication(content, address, _open(address), replace, say).run()
    except RemoteProblem as problem:
        raise PublishError(f"{address}: {problem}") from None
    except OSError as error:
        raise EnvironmentProblem(f"{address}: {error.strerror or error}") from None


def _open(address: Address) -> Place:
    if address.scheme == "file":
        return Folder(Path(address.path))
    try:
        return ObjectStore(*open_object_store(address, _SECONDS, _RETRIES))
    except ImportError:
        raise missing_extra("obstore", "publishing to a store", "publish") from None


class _Publication:
    def __init__(
        self, content: Content, address: Address, place: Place, replace: bool, say: Callable[[str], None]
    ) -> None:
        self._content = content
        self._address = address
        self._place = place
        self._replace = replace
        self._say = say
        self._manifest = manifest_of(content)
        self._digest = digest_of(self._manifest)

    def run(self) -> Published:
        before = self._place.read(MANIFEST_FILE)
        if before == self._manifest:
            attached = self._attach()
            if self._recorded():
                self._place.delete(RECORD)
            return self._published([], attached)
        if before is not None and not is_manifest(before):
            self._refuse(f"its {MANIFEST_FILE} is not one that modelbuild wrote; expected another address")
        if before is not None and not self._replace:
            self._refuse(f"it contains {digest_of(before)}, not {self._digest}; expected another address, or --replace")
        self._write_all(written(before or b"") | self._recorded())
        attached = [attachment.name for attachment in self._content.attachments]
        return self._published([file.path for file in self._content.files], attached)

    def _published(self, uploaded: list[str], attached: list[str]) -> Published:
        return Published(str(self._address), self._digest, uploaded, attached)

    def _write_all(self, ours: set[str]) -> None:
        """Write everything, and delete the other files of `ours`, the paths that modelbuild published.

        Nothing is deleted before all new files are complete, except in an object store manifest.json: without it
        nothing is published, so no reader takes old files for new files.
        """
        place, staging = self._place, self._place.staging
        new = [*(file.path for file in self._content.files), *(each.name for each in self._content.attachments)]
        self._check_free(new, ours)
        place.write(RECORD, json.dumps(sorted({*ours, *new, RECORD})).encode())
        if staging:
            for path in (*sorted(ours), MANIFEST_FILE):  # left by an interruption
                place.delete(f"{staging}/{path}")
        else:
            place.delete(MANIFEST_FILE)
        for file in self._content.files:
            self._write(file.path, file, "uploaded")
        for attachment in self._content.attachments:
            self._write(attachment.name, attachment.data, "attached")
        if staging:
            place.write(f"{staging}/{MANIFEST_FILE}", self._manifest)
            place.delete(MANIFEST_FILE)
        for path in sorted(ours - {*new, RECORD}):
            place.delete(path)
        if staging:
            for path in (*new, MANIFEST_FILE):
                place.move(path)
        else:
            place.write(MANIFEST_FILE, self._manifest)
        place.delete(RECORD)

    def _check_free(self, new: list[str], ours: set[str]) -> None:
        """Raise PublishError for a file that would be replaced and is not ours."""
        staged = [self._place.staging] if self._place.staging and RECORD not in ours else []
        known = ours.union(*(map(str, PurePosixPath(path).parents) for path in ours))
        for path in (*new, RECORD, *staged):
            if path not in known and self._place.exists(path):
                self._refuse(f"it contains {path}, which modelbuild did not publish; expected another address")

    def _write(self, path: str, data: bytes | PublishedFile, done: str) -> None:
        self._place.write(f"{self._place.staging}/{path}".removeprefix("/"), data)
        self._say(f"{done} {path}")

    def _attach(self) -> list[str]:
        """Write the documents that are missing; also those that differ, if replacing."""
        attached = []
        for attachment in self._content.attachments:
            found = self._place.read(attachment.name)
            if found is None or (self._replace and found != attachment.data):
                self._place.write(attachment.name, attachment.data)
                self._say(f"attached {attachment.name}")
                attached.append(attachment.name)
        return attached

    def _recorded(self) -> set[str]:
        """Return the paths in the record of an interrupted publication; none if it is not such a record."""
        try:
            found = json.loads(self._place.read(RECORD) or b"[]")
        except (ValueError, RecursionError):
            return set()
        if not isinstance(found, list) or RECORD not in found:
            return set()
        return {path for path in found if is_path(path)}

    def _refuse(self, problem: str) -> None:
        raise PublishError(f"{self._address}: {problem}")
