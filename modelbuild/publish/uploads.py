"""Uploads of blobs to a registry: in chunks, resumed where the connection was lost."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from modelbuild.registry.client import ATTEMPTS, Registry, RegistryProblem

# A blob up to this size is one request; a bigger blob is one request for each part of this size.
CHUNK = 16 << 20
_BLOCK = 1 << 20
_BINARY = {"Content-Type": "application/octet-stream"}
# The registry has forgotten an upload, or has an unexpected number of its bytes; the upload starts over.
_LOST = (400, 404, 416)


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob to upload: a file, or bytes."""

    digest: str
    size: int
    source: Path | bytes

    def part(self, start: int, size: int) -> Iterator[bytes]:
        """Yield the bytes of a part."""
        if isinstance(self.source, bytes):
            yield self.source[start : start + size]
            return
        with self.source.open("rb") as file:
            file.seek(start)
            while size and (data := file.read(min(size, _BLOCK))):
                size -= len(data)
                yield data


def upload(registry: Registry, blob: Blob) -> bool:
    """Upload a blob unless the registry has it. Returns whether it was uploaded. Raises RegistryProblem."""
    try:
        registry.ask("HEAD", f"/blobs/{blob.digest}")
        return False
    except RegistryProblem as problem:
        if problem.status != 404:
            raise
    _Upload(registry, blob).run()
    return True


class _Upload:
    """One upload, with its address (`session`, '' before it began) and the number of bytes that the registry has."""

    def __init__(self, registry: Registry, blob: Blob) -> None:
        self._registry = registry
        self._blob = blob
        self._session = ""
        self._done = 0
        self._chunk = CHUNK

    def run(self) -> None:
        """Send everything. Fails after as many failures in a row as ATTEMPTS has entries."""
        failures = 0
        while True:
            before = self._done
            try:
                if failures:
                    self._resume()
                self._go_on()
                return
            except RegistryProblem as problem:
                if not problem.passing and not (self._session and problem.status in _LOST and failures):
                    raise
                if problem.status in _LOST:
                    self._session = ""
                failures = 1 if self._done > before else failures + 1
                if failures >= len(ATTEMPTS):
                    raise
            time.sleep(ATTEMPTS[failures])

    def _go_on(self) -> None:
        if not self._session:
            answer = self._registry.send("POST", "/blobs/uploads/", {"Content-Length": "0"}, lambda: b"")
            with answer:
                self._move(answer.headers)
                least = answer.headers.get("OCI-Chunk-Min-Length", "")
            self._chunk, self._done = max(CHUNK, int(least) if least.isdecimal() else 0), 0
        size = self._blob.size
        while size > self._chunk and self._done < size:
            self._send("PATCH", self._session, self._done, min(self._chunk, size - self._done))
        rest = size - self._done
        joint = "&" if "?" in self._session else "?"
        self._send("PUT", f"{self._session}{joint}digest={self._blob.digest}", self._done, rest)

    def _send(self, method: str, url: str, start: int, size: int) -> None:
        headers = {**_BINARY, "Content-Length": str(size)}
        if method == "PATCH":
            headers["Content-Range"] = f"{start}-{start + size - 1}"
        with self._registry.send(method, url, headers, lambda: self._blob.part(start, size)) as answer:
            if method == "PATCH":
                self._move(answer.headers)
                self._done = start + size

    def _resume(self) -> None:
        """Ask the registry how many bytes it has. Starts over if it has no bytes, or the number is unknown."""
        if not self._session or self._blob.size <= self._chunk:
            self._session = ""
            return
        with self._registry.send("GET", self._session) as answer:
            found = re.fullmatch(r"(?:bytes=)?0-(\d{1,15})", answer.headers.get("Range", ""))
            # A registry reports 0-0 for no byte and for one byte.
            self._done = int(found[1]) + 1 if found and found[1] != "0" else 0
            if 0 < self._done <= self._blob.size:
                self._move(answer.headers)
            else:
                self._session = ""

    def _move(self, headers: Any) -> None:
        location = headers.get("Location", "")
        if not location:
            raise RegistryProblem("the registry sent no Location for an upload")
        self._session = urljoin(f"{self._registry.address.base}/", location)
