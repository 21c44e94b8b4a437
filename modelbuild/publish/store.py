"""Publish to an object store or a folder: the files at their paths, documents next to them, and manifest.json last.

manifest.json is the manifest that a registry would get, so the digest is the same everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from modelbuild.errors import EnvironmentProblem
from modelbuild.publish.content import Content, Published, PublishedFile, PublishError
from modelbuild.publish.manifest import MANIFEST_FILE, check_names, digest_of, manifest_of, written
from modelbuild.remote.messages import missing_extra
from modelbuild.remote.object_store import open_object_store, translated
from modelbuild.remote.problems import RemoteProblem
from modelbuild.workspace.remote_address import Address

_RETRIES = 5
_SECONDS = 60.0
_PART = 16 << 20
_MOST = 4 << 20


def publish_store(content: Content, address: Address, replace: bool, say: Callable[[str], None]) -> Published:
    """Write the files unless they are there. Raises PublishError for a store that cannot be used, and for other files
    there, unless replacing. Raises EnvironmentProblem for a folder that cannot be written."""
    check_names(content)
    try:
        opened = open_object_store(address, _SECONDS, _RETRIES)
    except ImportError:
        raise missing_extra("obstore", "publishing to a store or a folder", "publish") from None
    try:
        return _Publication(content, address, opened, replace, say).run()
    except RemoteProblem as problem:
        if address.scheme == "file":
            raise EnvironmentProblem(f"{address}: {problem}") from None
        raise PublishError(f"{address}: {problem}") from None


class _Publication:
    def __init__(
        self, content: Content, address: Address, opened: tuple[Any, str], replace: bool, say: Callable[[str], None]
    ) -> None:
        self._content = content
        self._address = address
        self._store, self._prefix = opened
        self._replace = replace
        self._say = say
        self._manifest = manifest_of(content)
        self._digest = digest_of(self._manifest)

    def run(self) -> Published:
        before = self._get(MANIFEST_FILE)
        present = before == self._manifest
        if before is not None and not present:
            if not self._replace:
                message = f"it contains {digest_of(before)}, not {self._digest}; expected another address, or --replace"
                raise PublishError(f"{self._address}: {message}")
            # Without a manifest nothing is published, so no reader takes old files for new files.
            self._delete(MANIFEST_FILE)
            kept = {file.path for file in self._content.files}
            for path in sorted(written(before) - kept):
                self._delete(path)
        uploaded = [] if present else [self._upload(file) for file in self._content.files]
        attached = self._attach()
        if not present:
            self._put(MANIFEST_FILE, self._manifest)
        return Published(str(self._address), self._digest, uploaded, attached)

    def _attach(self) -> list[str]:
        attached = []
        for attachment in self._content.attachments:
            found = self._get(attachment.name)
            if found is None or (self._replace and found != attachment.data):
                self._put(attachment.name, attachment.data)
                self._say(f"attached {attachment.name}")
                attached.append(attachment.name)
        return attached

    def _upload(self, file: PublishedFile) -> str:
        import obstore

        with translated():
            obstore.put(self._store, self._prefix + file.path, file.source, chunk_size=_PART, max_concurrency=2)
        if self._address.scheme == "file":
            os.chmod(f"{self._address.path}/{file.path}", 0o755 if file.executable else 0o644)
        self._say(f"uploaded {file.path}")
        return file.path

    def _put(self, path: str, data: bytes) -> None:
        import obstore

        with translated():
            obstore.put(self._store, self._prefix + path, data)

    def _get(self, path: str) -> bytes | None:
        """Return the content of a small file; None if there is none."""
        import obstore

        try:
            with translated():
                answer = obstore.get(self._store, self._prefix + path)
                if answer.meta["size"] > _MOST:
                    raise RemoteProblem("wrong", f"{path} is not one that modelbuild wrote")
                return bytes(answer.bytes())
        except RemoteProblem as problem:
            if problem.kind == "missing":
                return None
            raise

    def _delete(self, path: str) -> None:
        import obstore

        try:
            with translated():
                obstore.delete(self._store, self._prefix + path)
        except RemoteProblem as problem:
            if problem.kind != "missing":
                raise
