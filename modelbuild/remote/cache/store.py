"""A remote cache behind the local store: lookups fall back to it, and results are uploaded to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from modelbuild.actions import ActionResult, Digest, FileEntry, Material, Value
from modelbuild.remote.cache.client import Client
from modelbuild.remote.cache.uploads import Uploads
from modelbuild.store.codec import blobs_of
from modelbuild.store.interface import MissingBlob
from modelbuild.store.local import LocalStore
from modelbuild.workspace.remote_settings import RemoteSettings

# Blobs that are read as a whole (plans, reports, sources) are smaller; a larger blob is not fetched.
_MAX_READ = 256 << 20


class RemoteStore:
    """Implements Store; see there.

    The blobs of a remote result are fetched when they are read, or at once with download 'all'. Reading an unavailable
    blob raises MissingBlob, as when the local cache lost it.
    """

    def __init__(self, local: LocalStore, client: Client, settings: RemoteSettings, upload: bool) -> None:
        self._local = local
        self._client = client
        self._settings = settings
        self.fetched: set[str] = set()
        self._uploads = Uploads(client.publish, client.say) if upload else None

    def put_bytes(self, data: bytes) -> Digest:
        return self._local.put_bytes(data)

    def put_file(self, path: Path) -> Digest:
        return self._local.put_file(path)

    def put_output(self, path: Path) -> Value:
        return self._local.put_output(path)

    def read_bytes(self, digest: Digest) -> bytes:
        if digest.size > _MAX_READ and self._local.missing({digest}):
            raise MissingBlob(digest)
        self._fetch_missing({digest})
        return self._local.read_bytes(digest)

    def blob_path(self, digest: Digest, executable: bool = False) -> Path:
        self._fetch_missing({digest})
        return self._local.blob_path(digest, executable)

    def missing(self, digests: Iterable[Digest]) -> set[Digest]:
        return self._local.missing(digests)

    def place(self, value: Value, destination: Path) -> None:
        files = (value,) if isinstance(value, FileEntry) else (entry for _, entry in value.files)
        self._fetch_missing({entry.digest for entry in files})
        self._local.place(value, destination)

    def get_action(self, key: str, material: Material | None = None) -> ActionResult | None:
        known = self._local.get_action(key, material)
        if known is not None or material is None or not self._settings.lookups:
            return known
        found = self._client.lookup(key, [(name, kind) for name, _, kind in material["outputs"]])
        if found is None:
            return None
        if self._settings.download == "all":
            try:
                self._fetch_missing(blobs_of(found))
            except MissingBlob:
                return None
        self._local.put_action(key, found, material)
        self.fetched.add(key)
        return found

    def put_action(self, key: str, result: ActionResult, material: Material) -> None:
        self._local.put_action(key, result, material)
        if self._uploads is not None:
            self._uploads.add(key, result)

    def close(self, finish: bool, report: Callable[[int, int], None]) -> None:
        """Wait for uploads (unless `finish` is false), reporting them as Uploads.wait does, and close the remote. The
        local store stays open."""
        try:
            if self._uploads is not None and finish:
                self._uploads.wait(report)
        finally:
            if self._uploads is not None:
                self._uploads.drop()
            self._client.close()

    def _fetch_missing(self, digests: set[Digest]) -> None:
        absent = self._local.missing(digests)
        if absent:
            self._client.fetch(absent)
