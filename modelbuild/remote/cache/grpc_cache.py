"""A remote cache over the Remote Execution API: CAS, ByteStream, ActionCache, Capabilities."""

from __future__ import annotations

import importlib.util
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from modelbuild.actions import Digest
from modelbuild.remote.cache import streams
from modelbuild.remote.grpc_call import Watched, open_channel, translated
from modelbuild.remote.messages import BYTESTREAM, REAPI, Stub, message
from modelbuild.remote.problems import RemoteProblem
from modelbuild.remote.results import from_message, to_message
from modelbuild.remote.token import AccessToken
from modelbuild.workspace.remote_address import Address
from modelbuild.workspace.remote_settings import RemoteSettings

_SHA256 = 1
_ZSTD = 1


@dataclass(frozen=True, slots=True)
class Offer:
    """The capabilities of a server.

    updates   whether it accepts action results
    batch     bytes of a batch; 0: unspecified
    largest   bytes of the largest accepted blob; 0: unspecified
    zstd      whether streams may be compressed; batch_zstd: also blobs of a batch
    """

    updates: bool
    batch: int
    largest: int
    zstd: bool
    batch_zstd: bool


def read_offer(found: Any) -> Offer:
    """Parse capabilities. Raises RemoteProblem when the server does not support SHA-256."""
    if _SHA256 not in found.digest_functions:
        raise RemoteProblem("refused", "it does not know digests by SHA-256")
    able = importlib.util.find_spec("zstandard") is not None
    return Offer(
        found.action_cache_update_capabilities.update_enabled,
        found.max_batch_total_size_bytes,
        found.max_cas_blob_size_bytes,
        able and _ZSTD in found.supported_compressors,
        able and _ZSTD in found.supported_batch_update_compressors,
    )


# Message size for a server without a stated limit: grpc's own default is 4 MiB, headers included.
_BATCH = 3 << 20
# One FindMissingBlobs or batch call contains at most this many digests (about 80 bytes each).
_DIGESTS = 4096


class GrpcCache:
    """Implements Cache; see there."""

    def __init__(self, address: Address, settings: RemoteSettings) -> None:
        self.name = str(address)
        self.batch_size = _BATCH
        self._instance = address.path
        self._timeout = settings.timeout
        self._token = AccessToken(settings.security)
        self._channel = open_channel(address, settings.security)
        self._capabilities = Stub(self._channel, REAPI + "Capabilities")
        self._actions = Stub(self._channel, REAPI + "ActionCache")
        self._cas = Stub(self._channel, REAPI + "ContentAddressableStorage")
        self._bytes = Stub(self._channel, BYTESTREAM + "ByteStream")
        self._lock = threading.Lock()
        self._offer: Offer | None = None
        self._refusal: tuple[float, RemoteProblem] | None = None

    def get_action(self, action: Digest) -> Any | None:
        self._capabilities_of_server()
        try:
            return self._call(self._actions.GetActionResult, "GetActionResultRequest", action_digest=to_message(action))
        except RemoteProblem as problem:
            if problem.kind == "missing":
                return None
            raise

    def put_action(self, action: Digest, result: Any) -> None:
        if not self._capabilities_of_server().updates:
            raise RemoteProblem("refused", "UpdateActionResult: it accepts no results")
        self._call(
            self._actions.UpdateActionResult,
            "UpdateActionResultRequest",
            action_digest=to_message(action),
            action_result=result,
        )

    def missing(self, digests: Collection[Digest]) -> set[Digest]:
        self._capabilities_of_server()
        found: set[Digest] = set()
        for some in _chunks(digests, _DIGESTS):
            answer = self._call(
                self._cas.FindMissingBlobs, "FindMissingBlobsRequest", blob_digests=[to_message(d) for d in some]
            )
            found |= {_digest(d) for d in answer.missing_blob_digests}
        return found & set(digests)

    def read_small(self, digests: Collection[Digest]) -> dict[Digest, bytes]:
        offer = self._capabilities_of_server()
        found: dict[Digest, bytes] = {}
        for some in _chunks(digests, _DIGESTS):
            answer = self._call(
                self._cas.BatchReadBlobs,
                "BatchReadBlobsRequest",
                digests=[to_message(d) for d in some],
                acceptable_compressors=[streams.ZSTD] if offer.batch_zstd else [],
            )
            asked = set(some)
            for one in answer.responses:
                # The unpacked size of a blob that was not requested is unknown.
                if one.status.code == 0 and (digest := _digest(one.digest)) in asked:
                    data = streams.unpack(one.data, digest.size) if one.compressor == streams.ZSTD else one.data
                    found[digest] = data
        return found

    def read(self, digest: Digest, sink: BinaryIO) -> None:
        packed = self._capabilities_of_server().zstd and digest.size >= streams.WORTH
        name = f"{self._prefix()}{streams.KIND[packed]}/{digest.hash}/{digest.size}"
        request = message("google.bytestream.ReadRequest")(resource_name=name, read_offset=sink.tell())
        with translated("Read"), Watched(self._timeout) as watched:
            call = watched.start(self._bytes.Read(request, metadata=self._token.headers()))
            for data in streams.received(call, watched, packed, digest.size - sink.tell()):
                sink.write(data)

    def write_small(self, blobs: Mapping[Digest, bytes]) -> None:
        offer = self._capabilities_of_server()
        for digest in blobs:
            _check_size(digest, offer)
        packed = offer.batch_zstd
        for some in _chunks(blobs, _DIGESTS):
            requests = []
            for digest in some:
                data = streams.pack(blobs[digest]) if packed else blobs[digest]
                requests.append(
                    message("BatchUpdateBlobsRequest.Request")(
                        digest=to_message(digest), data=data, compressor=streams.ZSTD if packed else 0
                    )
                )
            answer = self._call(self._cas.BatchUpdateBlobs, "BatchUpdateBlobsRequest", requests=requests)
            for one in answer.responses:
                if one.status.code != 0:
                    raise streams.refusal(one.status)

    def write(self, digest: Digest, source: Path) -> None:
        offer = self._capabilities_of_server()
        _check_size(digest, offer)
        packed = offer.zstd and digest.size >= streams.WORTH
        upload = streams.Upload(self._prefix(), digest, packed)
        with source.open("rb") as file, translated("Write"), Watched(self._timeout) as watched:
            pieces = upload.pieces(file, watched)
            # The answer may come before everything is sent, if the server has the blob already.
            answer = watched.start(self._bytes.Write.future(pieces, metadata=self._token.headers())).result()
        upload.check(answer.committed_size)

    def close(self) -> None:
        self._channel.close()

    def _capabilities_of_server(self) -> Offer:
        """Return the server's capabilities, requested once. Threads that waited for the answer share it, and also a
        failure, so that a dead server costs only one timeout."""
        began = time.monotonic()
        with self._lock:
            if self._offer is None:
                if self._refusal is not None and self._refusal[0] > began:
                    raise RemoteProblem(self._refusal[1].kind, str(self._refusal[1]))
                try:
                    answer = self._call(self._capabilities.GetCapabilities, "GetCapabilitiesRequest")
                    self._offer = read_offer(answer.cache_capabilities)
                except RemoteProblem as problem:
                    self._refusal = (time.monotonic(), problem)
                    raise
                if self._offer.batch:
                    self.batch_size = min(self._offer.batch, _BATCH)
            return self._offer

    def _call(self, method: Any, request: str, **fields: Any) -> Any:
        with translated(request.removesuffix("Request")):
            made = message(request)(instance_name=self._instance, **fields)
            return method(made, timeout=self._timeout, metadata=self._token.headers())

    def _prefix(self) -> str:
        return f"{self._instance}/" if self._instance else ""


def _check_size(digest: Digest, offer: Offer) -> None:
    if 0 < offer.largest < digest.size:
        raise RemoteProblem("big", f"it accepts no blob above {offer.largest} bytes; {digest.hash} has {digest.size}")


def _digest(found: Any) -> Digest:
    try:
        return from_message(found)
    except ValueError as error:
        raise RemoteProblem("wrong", str(error)) from None


def _chunks(items: Iterable[Digest], size: int) -> Iterator[list[Digest]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some
