"""A remote cache for the store: results by key, and blobs to and from the local store."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from modelbuild.actions import ActionResult, Digest
from modelbuild.remote.cache.circuit_breaker import CircuitBreaker
from modelbuild.remote.cache.interface import Cache
from modelbuild.remote.problems import Kind, RemoteProblem
from modelbuild.remote.results import action_of, decode, encode
from modelbuild.store.codec import blobs_of
from modelbuild.store.digests import digest_bytes
from modelbuild.store.interface import MissingBlob
from modelbuild.store.local import LocalStore

# Blobs up to this size are sent in batches.
_SMALL = 256 << 10
# Kinds of problems that reading and writing share: reported only once for both.
_SHARED: tuple[Kind, ...] = ("down", "slow")
# Consequences of a failed upload, and of one blob that is too big.
_STAY = "continuing without uploads: results of this build stay here"
_STAYS = "results with such a blob stay here"


def _ignore(size: int) -> None:
    """Ignore the number of remaining bytes."""


class Client:
    """Compares downloads with their digests before use. Safe for many threads.

    say   called once for a problem with the server or the connection, once for other problems with reading and with
          writing, and once for a blob that is too big
    """

    def __init__(self, cache: Cache, local: LocalStore, say: Callable[[str], None]) -> None:
        self._cache = cache
        self._local = local
        self.say = say
        self._unreachable = False
        self._closed = False
        self._lock = threading.Lock()
        self.reading = CircuitBreaker(lambda problem: self._report(problem, "continuing without it"))
        self.writing = CircuitBreaker(lambda problem: self._report(problem, _STAYS if problem.kind == "big" else _STAY))
        self._too_big: set[Digest] = set()

    def lookup(self, key: str, declared: Iterable[tuple[str, str]]) -> ActionResult | None:
        """Return the result for a key; None if there is none or it is unusable."""
        action, _ = action_of(key)
        try:
            found = self.reading.call(lambda: self._cache.get_action(action))
            if found is None:
                return None
            return decode(found, tuple(declared), self.read_all)
        except RemoteProblem as problem:
            if problem.kind == "wrong":
                self.reading.failed(problem)
            return None

    def fetch(self, digests: Collection[Digest]) -> None:
        """Download blobs to the local store. Raises MissingBlob for the first unavailable blob."""
        wanted = self._local.missing(digests)
        try:
            for batch in self._batches(d for d in wanted if self._is_small(d)):
                for data in self._read_batch(batch).values():
                    self._local.put_bytes(data)
            for digest in wanted:
                if not self._is_small(digest):
                    self._download(digest)
        except RemoteProblem:
            pass
        for digest in self._local.missing(wanted):
            raise MissingBlob(digest)

    def publish(self, key: str, result: ActionResult, left: Callable[[int], None] = _ignore) -> None:
        """Upload a result of the local store: first its blobs, then the result itself. Reports the first failure.
        `left` is called with the number of remaining bytes."""
        with suppress(RemoteProblem, MissingBlob):
            action, described = action_of(key)
            made, trees = encode(result)
            described |= trees
            wanted = [*described, *blobs_of(result)]
            if not self._too_big.isdisjoint(wanted):
                return
            self.upload(self.absent(wanted), described, left)
            self.writing.call(lambda: self._cache.put_action(action, made))

    def absent(self, digests: Collection[Digest]) -> set[Digest]:
        """Return the digests whose blobs the remote lacks. Raises RemoteProblem."""
        return self.writing.call(lambda: self._cache.missing(digests))

    def upload(
        self, digests: Collection[Digest], known: Mapping[Digest, bytes], left: Callable[[int], None] = _ignore
    ) -> None:
        """Upload blobs from `known` or the local store. Raises RemoteProblem and MissingBlob."""
        small = [d for d in digests if self._is_small(d)]
        to_go = sum(d.size for d in digests)
        left(to_go)
        for batch in self._batches(small):
            blobs = {d: known[d] if d in known else self._local.read_bytes(d) for d in batch}
            self.writing.call(partial(self._cache.write_small, blobs))
            to_go -= sum(d.size for d in batch)
            left(to_go)
        for digest in set(digests).difference(small):
            if digest in known:
                self._local.put_bytes(known[digest])
            try:
                self.writing.call(partial(self._cache.write, digest, self._local.blob_path(digest)))
            except RemoteProblem as problem:
                if problem.kind == "big":
                    self._too_big.add(digest)
                raise
            to_go -= digest.size
            left(to_go)

    def close(self) -> None:
        """Close the connection. Calls in progress fail silently."""
        self._closed = True
        self._cache.close()

    def read_all(self, digests: Collection[Digest]) -> dict[Digest, bytes]:
        """Return the checked blobs that the remote has. Raises RemoteProblem."""
        found: dict[Digest, bytes] = {}
        for batch in self._batches(d for d in set(digests) if self._is_small(d)):
            found |= self._read_batch(batch)
        for digest in set(digests) - found.keys():
            self._download(digest)
            found[digest] = self._local.read_bytes(digest)
        return found

    def _read_batch(self, batch: list[Digest]) -> dict[Digest, bytes]:
        """Return the checked blobs that the remote has."""
        found = self.reading.call(lambda: self._cache.read_small(batch))
        for digest, data in found.items():
            if digest_bytes(data) != digest:
                raise self._wrong_bytes(digest)
        return {digest: found[digest] for digest in batch if digest in found}

    def _download(self, digest: Digest) -> None:
        if digest.size > shutil.disk_usage(self._local.scratch).free:
            problem = RemoteProblem("full", f"there is no room here for {digest.size} bytes")
            self.reading.failed(problem)
            raise problem
        descriptor, name = tempfile.mkstemp(prefix="fetched-", dir=self._local.scratch)
        path = Path(name)
        try:
            # Unbuffered, so that after a failure the file's position is the number of received bytes.
            with open(descriptor, "wb", buffering=0) as sink:
                self.reading.call(lambda: self._cache.read(digest, sink))
            if self._local.put_file(path) != digest:
                raise self._wrong_bytes(digest)
        finally:
            path.unlink(missing_ok=True)

    def _wrong_bytes(self, digest: Digest) -> RemoteProblem:
        problem = RemoteProblem("wrong", f"it sent wrong bytes for {digest}")
        self.reading.failed(problem)
        return problem

    def _report(self, problem: RemoteProblem, consequence: str) -> None:
        if self._closed:
            return
        if problem.kind in _SHARED:
            with self._lock:
                known, self._unreachable = self._unreachable, True
            if known:
                return
        self.say(f"remote cache {self._cache.name}: {problem}; {consequence}")

    def _is_small(self, digest: Digest) -> bool:
        return digest.size <= min(_SMALL, self._cache.batch_size)

    def _batches(self, digests: Iterable[Digest]) -> Iterable[list[Digest]]:
        batch: list[Digest] = []
        total = 0
        for digest in digests:
            if batch and total + digest.size > self._cache.batch_size:
                yield batch
                batch, total = [], 0
            batch.append(digest)
            total += digest.size
        if batch:
            yield batch
