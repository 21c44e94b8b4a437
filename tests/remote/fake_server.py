"""A cache server of the Remote Execution API, with contents in a dict, that misbehaves on demand as no real server
does."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import zstandard

from modelbuild.remote.messages import BYTESTREAM, REAPI, message, pool

Fault = Callable[[str], str]


class FakeServer:
    """`fault(method)` names the fault of a call: '' none, 'wrong', 'cut', 'slow', 'more' (than requested), or a gRPC
    status code, optionally with details: 'ABORTED: try again'.

    calls   number of calls of each method
    blobs   by hash; results: by the hash of an action
    """

    def __init__(
        self, zstd: bool = False, batch: int = 0, fault: Fault = lambda method: "", credentials: Any = None
    ) -> None:
        self.blobs: dict[str, bytes] = {}
        self.results: dict[str, bytes] = {}
        self.partial: dict[str, bytes] = {}
        self.calls: Counter[str] = Counter()
        self.metadata: list[tuple[str, str]] = []
        self.fault = fault
        self.zstd = zstd
        self.batch = batch
        self.updates = True
        self.largest = 0
        self.slow = 0.5
        self._lock = threading.Lock()
        self._server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        for service in ("Capabilities", "ActionCache", "ContentAddressableStorage", "Execution"):
            self._serve(REAPI + service)
        self._serve(BYTESTREAM + "ByteStream")
        if credentials is None:
            self.port = self._server.add_insecure_port("127.0.0.1:0")
        else:
            self.port = self._server.add_secure_port("127.0.0.1:0", credentials)
        self.address = f"grpc{'s' if credentials else ''}://127.0.0.1:{self.port}"
        self._server.start()

    def close(self) -> None:
        self._server.stop(0).wait()

    def _serve(self, service: str) -> None:
        handlers = {}
        for method in pool().FindServiceByName(service).methods:
            own = getattr(self, method.name, None)
            if own is None:
                continue
            request = message_class(method.input_type)
            arity = ("stream" if method.client_streaming else "unary") + (
                "_stream" if method.server_streaming else "_unary"
            )
            make = getattr(grpc, f"{arity}_rpc_method_handler")
            wrapped = self._streaming(own) if method.server_streaming else self._single(own)
            handlers[method.name] = make(wrapped, request.FromString, lambda m: m.SerializeToString())
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))

    def _enter(self, name: str, context: grpc.ServicerContext) -> str:
        with self._lock:
            self.calls[name] += 1
            self.metadata = list(context.invocation_metadata())
            what = self.fault(name)
        if what == "slow":
            time.sleep(self.slow)
        code, _, details = what.partition(": ")
        if code.isupper():
            context.abort(grpc.StatusCode[code], details or "asked for")
        return what

    def _single(self, own: Any) -> Any:
        def handle(request: Any, context: grpc.ServicerContext) -> Any:
            return own(request, context, self._enter(own.__name__, context))

        return handle

    def _streaming(self, own: Any) -> Any:
        def handle(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            yield from own(request, context, self._enter(own.__name__, context))

        return handle

    def GetCapabilities(self, request: Any, context: Any, fault: str) -> Any:
        answer = message("ServerCapabilities")()
        cache = answer.cache_capabilities
        cache.digest_functions.append(1)
        cache.action_cache_update_capabilities.update_enabled = self.updates
        cache.max_batch_total_size_bytes = self.batch
        cache.max_cas_blob_size_bytes = self.largest
        if self.zstd:
            cache.supported_compressors.append(1)
            cache.supported_batch_update_compressors.append(1)
        return answer

    def GetActionResult(self, request: Any, context: Any, fault: str) -> Any:
        data = self.results.get(request.action_digest.hash)
        if data is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such action")
        result = message("ActionResult").FromString(data)
        if fault == "wrong":
            result.output_files.add(path="../outside").digest.hash = "no digest"
        return result

    def UpdateActionResult(self, request: Any, context: Any, fault: str) -> Any:
        self.results[request.action_digest.hash] = request.action_result.SerializeToString()
        return request.action_result

    def FindMissingBlobs(self, request: Any, context: Any, fault: str) -> Any:
        absent = [d for d in request.blob_digests if d.hash not in self.blobs]
        return message("FindMissingBlobsResponse")(missing_blob_digests=absent)

    def BatchReadBlobs(self, request: Any, context: Any, fault: str) -> Any:
        answer = message("BatchReadBlobsResponse")()
        packed = self.zstd and 1 in request.acceptable_compressors
        if fault == "more":
            for name, data in self.blobs.items():
                request.digests.add(hash=name, size_bytes=len(data))
        for digest in request.digests:
            one = answer.responses.add(digest=digest)
            if digest.hash not in self.blobs:
                one.status.code = 5
                continue
            data = spoiled(self.blobs[digest.hash], fault)
            one.data = zstandard.compress(data) if packed else data
            one.compressor = 1 if packed else 0
        return answer

    def BatchUpdateBlobs(self, request: Any, context: Any, fault: str) -> Any:
        answer = message("BatchUpdateBlobsResponse")()
        for one in request.requests:
            data = zstandard.decompress(one.data) if one.compressor else one.data
            ended = answer.responses.add(digest=one.digest)
            ended.status.code = 0 if self._keep(one.digest.hash, data) else 3
        return answer

    def Read(self, request: Any, context: Any, fault: str) -> Iterator[Any]:
        parts = request.resource_name.split("/")
        data = self.blobs.get(parts[-2])
        if data is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such blob")
        data = spoiled(data, fault)[request.read_offset :]
        if "zstd" in parts:
            data = zstandard.compress(data)
        for start in range(0, len(data), 64 << 10):
            if fault == "cut" and start > len(data) // 2:
                context.abort(grpc.StatusCode.UNAVAILABLE, "cut off")
            yield message("google.bytestream.ReadResponse")(data=data[start : start + (64 << 10)])

    def Write(self, requests: Iterator[Any], context: Any, fault: str) -> Any:
        name = ""
        for request in requests:
            name = name or request.resource_name
            held = self.partial.setdefault(name, b"")
            if request.write_offset != len(held):
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"at {len(held)}, not {request.write_offset}")
            self.partial[name] = held + request.data
            if fault == "cut" and len(self.partial[name]) > 100_000:
                context.abort(grpc.StatusCode.UNAVAILABLE, "cut off")
        parts = name.split("/")
        data = self.partial.pop(name)
        sent = len(data)
        data = zstandard.ZstdDecompressor().decompressobj().decompress(data) if "zstd" in parts else data
        if not self._keep(parts[-2], data):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not what its digest says")
        return message("google.bytestream.WriteResponse")(committed_size=sent)

    def _keep(self, expected: str, data: bytes) -> bool:
        if hashlib.sha256(data).hexdigest() != expected:
            return False
        self.blobs[expected] = data
        return True


def message_class(descriptor: Any) -> Any:
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(descriptor)


def spoiled(data: bytes, fault: str) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:] if fault == "wrong" and data else data


def seeded(seed: int, rate: float) -> Fault:
    """Faults of every kind, for a share of the calls, the same for each seed."""
    draw = random.Random(seed)
    kinds = ("wrong", "cut", "slow", "UNAVAILABLE", "INTERNAL", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "NOT_FOUND")
    return lambda method: draw.choice(kinds) if draw.random() < rate else ""
