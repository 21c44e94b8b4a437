"""Messages and stubs of the Remote Execution API, from descriptors in a private pool.

The pool is private so that other packages' copies of the same .proto files (google.rpc, google.longrunning) do not
clash with ours. There is no generated code: building the package makes reapi.binpb from protos/.
"""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path
from typing import Any

from modelbuild.errors import EnvironmentProblem

REAPI = "build.bazel.remote.execution.v2."
BYTESTREAM = "google.bytestream."


_LOCK = threading.Lock()


def pool() -> Any:
    """Return the pool of all messages."""
    # Messages of two pools are incompatible, so concurrent first calls must not each make a pool.
    with _LOCK:
        return _only_pool()


@cache
def _only_pool() -> Any:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool
    except ImportError:
        raise missing_extra("protobuf") from None
    path = Path(__file__).with_name("reapi.binpb")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise EnvironmentProblem(f"{path} is missing; 'python protos/generate.py' in the checkout makes it") from None
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        pool.Add(file)
    return pool


def missing_extra(package: str, user: str = "a remote", extra: str = "remote") -> EnvironmentProblem:
    """Return the error for a missing package that only remotes, or another user, need."""
    return EnvironmentProblem(
        f"{user} needs the package '{package}', which is not installed; install modelbuild[{extra}]"
    )


@cache
def message(name: str) -> Any:
    """Return a message's class, by its name in the Remote Execution API or by its full name."""
    from google.protobuf import message_factory

    full = name if name.startswith("google.") else REAPI + name
    return message_factory.GetMessageClass(pool().FindMessageTypeByName(full))


class Stub:
    """The methods of one service, by name, as grpc's multi-callables."""

    def __init__(self, channel: Any, service: str) -> None:
        from google.protobuf import message_factory

        for method in pool().FindServiceByName(service).methods:
            request = message_factory.GetMessageClass(method.input_type)
            response = message_factory.GetMessageClass(method.output_type)
            kind = (
                f"{'stream' if method.client_streaming else 'unary'}_{'stream' if method.server_streaming else 'unary'}"
            )
            make = getattr(channel, kind)
            call = make(
                f"/{service}/{method.name}",
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            )
            setattr(self, method.name, call)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)
