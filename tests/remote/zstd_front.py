"""A compressing front end for a server without compression: it decompresses requests and compresses answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import zstandard

from modelbuild.remote.messages import BYTESTREAM, REAPI, message

PACKED, PLAIN = "compressed-blobs/zstd/", "blobs/"
CAS = REAPI + "ContentAddressableStorage"
READ, WRITE = (f"/{BYTESTREAM}ByteStream/{name}" for name in ("Read", "Write"))
ANSWERS = {
    f"/{REAPI}Capabilities/GetCapabilities": "ServerCapabilities",
    f"/{CAS}/BatchReadBlobs": "BatchReadBlobsResponse",
}


class ZstdFront(grpc.GenericRpcHandler):
    """Offers zstd on a free port of 127.0.0.1, in front of the server on another one.

    packed   number of compressed transfers, by method
    """

    def __init__(self, server: int) -> None:
        self.packed: Counter[str] = Counter()
        self._far = grpc.insecure_channel(f"127.0.0.1:{server}")
        self._server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers((self,))
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"grpc://127.0.0.1:{self.port}"
        self._server.start()

    def close(self) -> None:
        self._server.stop(0).wait()
        self._far.close()

    def service(self, details: Any) -> Any:
        if details.method == READ:
            return grpc.unary_stream_rpc_method_handler(told(self._read))
        if details.method == WRITE:
            return grpc.stream_unary_rpc_method_handler(told(self._write))
        return grpc.unary_unary_rpc_method_handler(told(lambda data: self._call(details.method, data)))

    def _call(self, method: str, data: bytes) -> bytes:
        asks = False
        if method.endswith("BatchReadBlobs"):
            request = message("BatchReadBlobsRequest").FromString(data)
            asks = 1 in request.acceptable_compressors
            request.ClearField("acceptable_compressors")
            data = request.SerializeToString()
        elif method.endswith("BatchUpdateBlobs"):
            request = message("BatchUpdateBlobsRequest").FromString(data)
            for one in request.requests:
                if one.compressor:
                    self.packed[method] += 1
                    one.data, one.compressor = zstandard.decompress(one.data), 0
            data = request.SerializeToString()
        answered: bytes = self._far.unary_unary(method)(data)
        if method not in ANSWERS:
            return answered
        answer = message(ANSWERS[method]).FromString(answered)
        if method.endswith("GetCapabilities"):
            answer.cache_capabilities.supported_compressors.append(1)
            answer.cache_capabilities.supported_batch_update_compressors.append(1)
        elif asks:
            for one in answer.responses:
                if one.status.code == 0:
                    self.packed[method] += 1
                    one.data, one.compressor = zstandard.compress(one.data), 1
        return bytes(answer.SerializeToString())

    def _read(self, data: bytes) -> Iterator[bytes]:
        request = message("google.bytestream.ReadRequest").FromString(data)
        packer: Any = zstandard.ZstdCompressor().compressobj() if PACKED in request.resource_name else None
        request.resource_name = request.resource_name.replace(PACKED, PLAIN)
        make = message("google.bytestream.ReadResponse")
        for answer in self._far.unary_stream(READ)(request.SerializeToString()):
            if packer is None:
                yield answer
            elif some := packer.compress(make.FromString(answer).data):
                yield make(data=some).SerializeToString()
        if packer is not None:
            self.packed[READ] += 1
            yield make(data=packer.flush()).SerializeToString()

    def _write(self, requests: Iterator[bytes]) -> bytes:
        packed = finished = False
        sent = 0

        def plain() -> Iterator[bytes]:
            nonlocal packed, finished, sent
            unpacker: Any = zstandard.ZstdDecompressor().decompressobj()
            offset = 0
            for data in requests:
                request = message("google.bytestream.WriteRequest").FromString(data)
                packed |= PACKED in request.resource_name
                if packed:
                    sent += len(request.data)
                    request.resource_name = request.resource_name.replace(PACKED, PLAIN)
                    request.data = unpacker.decompress(request.data)
                    request.write_offset = offset
                    offset += len(request.data)
                finished |= request.finish_write
                yield request.SerializeToString()

        answer = message("google.bytestream.WriteResponse").FromString(self._far.stream_unary(WRITE)(plain()))
        if packed:
            self.packed[WRITE] += 1
            # The answer of a server that has the blob before it received all bytes.
            answer.committed_size = sent if finished else -1
        return bytes(answer.SerializeToString())


def told(own: Callable[[Any], Any]) -> Callable[[Any, grpc.ServicerContext], Any]:
    """Return a handler that fails like the server behind it."""

    def handle(request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return own(request)
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())

    def handle_stream(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        try:
            yield from own(request)
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())

    return handle_stream if own.__name__ == "_read" else handle
