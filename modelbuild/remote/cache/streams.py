"""ByteStream: blobs in pieces, compressed if both sides support it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from modelbuild.actions import Digest
from modelbuild.remote.grpc_call import Watched
from modelbuild.remote.messages import message
from modelbuild.remote.problems import Kind, RemoteProblem

# Compressor.Value.ZSTD
ZSTD = 1
# Bytes; smaller blobs are not worth a compressed stream.
WORTH = 4 << 10
# Resource names of plain and compressed blobs.
KIND = {False: "blobs", True: "compressed-blobs/zstd"}
_LEVEL = 1
# A compressed stream is at most so many times as long as its blob, and so many bytes more: frames may also be empty.
_MOST_PER_BYTE = 2
_MOST_MORE = 64 << 10
_PIECE = 256 << 10
_CODES: dict[int, Kind] = {7: "refused", 8: "full", 12: "refused", 16: "refused", 3: "wrong"}


def received(call: Iterable[Any], watched: Watched, packed: bool, size: int) -> Iterator[bytes]:
    """Yield the bytes of a read, unpacked. Raises RemoteProblem 'wrong' as soon as there are more than `size`."""
    left = size
    pieces = _moving(call, watched, size if not packed else _MOST_PER_BYTE * size + _MOST_MORE)
    for data in _unpacked(pieces) if packed else pieces:
        left -= len(data)
        if left < 0:
            raise RemoteProblem("wrong", "it sent more bytes than the blob has")
        yield data
    if left:
        raise RemoteProblem("down", f"it sent {size - left} of {size} bytes")


def _moving(call: Iterable[Any], watched: Watched, most: int) -> Iterator[bytes]:
    for answer in call:
        most -= len(answer.data)
        if most < 0:
            raise RemoteProblem("wrong", "it sent more bytes than the blob has")
        watched.moved(len(answer.data))
        yield answer.data


class _Source:
    """A reader of received bytes, which unpacks no more than requested: a small message cannot fill the memory."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def read(self, size: int) -> bytes:
        while not self._rest:
            try:
                self._rest = next(self._pieces)
            except StopIteration:
                return b""
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


def _unpacked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    import zstandard

    source: Any = _Source(pieces)
    reader = zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True)
    try:
        while data := reader.read(_PIECE):
            yield bytes(data)
    except zstandard.ZstdError as error:
        raise RemoteProblem("wrong", f"it sent no zstd stream: {error}") from None


def pack(data: bytes) -> bytes:
    import zstandard

    return bytes(zstandard.ZstdCompressor(level=_LEVEL).compress(data))


def unpack(data: bytes, size: int) -> bytes:
    """Return a compressed blob of a known size. Raises RemoteProblem 'wrong'."""
    import zstandard

    try:
        stream = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
        found = stream.read(size + 1)
    except zstandard.ZstdError as error:
        raise RemoteProblem("wrong", f"it sent no zstd data: {error}") from None
    return bytes(found)


class Upload:
    """One attempt to upload a blob."""

    def __init__(self, prefix: str, digest: Digest, packed: bool) -> None:
        self._name = f"{prefix}uploads/{uuid.uuid4()}/{KIND[packed]}/{digest.hash}/{digest.size}"
        self._size = digest.size
        self._packed = packed
        self._sent = 0

    def pieces(self, file: BinaryIO, watched: Watched) -> Iterator[Any]:
        """Yield requests with the file's bytes."""
        make = message("google.bytestream.WriteRequest")
        for data, last in _ahead(self._packed_pieces(file) if self._packed else _blocks(file)):
            yield make(resource_name=self._name, write_offset=self._sent, data=data, finish_write=last)
            self._sent += len(data)
            watched.moved(len(data))

    def check(self, committed: int) -> None:
        """Raise RemoteProblem unless the server has all bytes (-1: a compressed blob that existed before)."""
        if committed not in ((self._sent, self._size, -1) if self._packed else (self._size,)):
            raise RemoteProblem("down", f"it took {committed} of {self._size} bytes")

    def _packed_pieces(self, file: BinaryIO) -> Iterator[bytes]:
        import zstandard

        packer: Any = zstandard.ZstdCompressor(level=_LEVEL).chunker(chunk_size=_PIECE)
        for data in _blocks(file):
            yield from map(bytes, packer.compress(data))
        yield from map(bytes, packer.finish())


def refusal(status: Any) -> RemoteProblem:
    """Convert the google.rpc.Status of a blob in a batch to a problem."""
    from grpc import StatusCode

    name = next((code.name for code in StatusCode if code.value[0] == status.code), str(status.code))
    text = f"BatchUpdateBlobs: {name}: {status.message}".rstrip(": ")
    return RemoteProblem(_CODES.get(status.code, "down"), text)


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    while data := file.read(_PIECE):
        yield data


def _ahead(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield each piece, and whether it is the last; one empty piece if there is none."""
    before: bytes | None = None
    for piece in pieces:
        if before is not None:
            yield before, False
        before = piece
    yield before or b"", True
