"""gRPC channels with TLS, calls that time out without progress, and translated gRPC errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from modelbuild.errors import EnvironmentProblem
from modelbuild.remote.messages import missing_extra
from modelbuild.remote.problems import Kind, RemoteProblem
from modelbuild.transfer import Pace
from modelbuild.workspace.remote_address import Address
from modelbuild.workspace.remote_settings import Security

# A message is at most a batch and a little more; larger messages are rejected.
MAX_MESSAGE = 16 << 20

_KINDS: dict[str, Kind] = {
    "UNAVAILABLE": "down",
    "ABORTED": "down",
    "INTERNAL": "down",
    "UNKNOWN": "down",
    "CANCELLED": "down",
    "DATA_LOSS": "down",
    "DEADLINE_EXCEEDED": "slow",
    "RESOURCE_EXHAUSTED": "full",
    "PERMISSION_DENIED": "refused",
    "UNAUTHENTICATED": "refused",
    "UNIMPLEMENTED": "refused",
    "INVALID_ARGUMENT": "wrong",
    "NOT_FOUND": "missing",
    "FAILED_PRECONDITION": "missing",
}


def open_channel(address: Address, security: Security) -> Any:
    """Return a channel; it connects on the first call. Raises EnvironmentProblem for missing files."""
    try:
        import grpc
    except ImportError:
        raise missing_extra("grpcio") from None

    options = [
        ("grpc.max_receive_message_length", MAX_MESSAGE),
        ("grpc.max_send_message_length", MAX_MESSAGE),
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.max_reconnect_backoff_ms", 5000),
        # A private pool of connections: closing one client must not end another's.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.primary_user_agent", "modelbuild"),
    ]
    if address.scheme == "grpc":
        return grpc.insecure_channel(address.host, options)
    ca, cert, key = (_pem(path) for path in (security.ca, security.cert, security.key))
    return grpc.secure_channel(address.host, grpc.ssl_channel_credentials(ca, key, cert), options)


def _pem(path: Path | None) -> bytes | None:
    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise EnvironmentProblem(f"cannot read {path}: {error.strerror}") from None


# Fragments of gRPC's messages about a message above the other side's limit; gRPC uses the same code for a full disk.
_TOO_BIG = ("larger than max", "exceeds maximum size")


@contextmanager
def translated(what: str = "") -> Iterator[None]:
    """Raise RemoteProblem for grpc's errors; `what` names the call."""
    import grpc

    try:
        yield
    except grpc.FutureCancelledError:
        raise RemoteProblem("down", "CANCELLED") from None
    except ValueError as error:
        if "closed channel" not in str(error):
            raise
        raise RemoteProblem("down", "the connection was closed") from None
    except grpc.RpcError as error:
        code = error.code().name if hasattr(error, "code") else "UNKNOWN"
        details = " ".join(str(error.details() or "").split()) if hasattr(error, "details") else ""
        kind = _KINDS.get(code, "wrong")
        if kind == "full" and any(words in details for words in _TOO_BIG):
            kind = "big"
        raise RemoteProblem(kind, ": ".join(part for part in (what, code, details) if part)) from None


class Watched:
    """A streaming call that is cancelled when it is too slow (Pace): a total deadline would depend on the connection's
    speed."""

    def __init__(self, timeout: float) -> None:
        self._pace = Pace(timeout)
        self._over = threading.Event()
        self._call: Any = None
        self._thread = threading.Thread(target=self._watch, name="watch", daemon=True)
        self.stalled = False

    def start(self, call: Any) -> Any:
        """Watch a call from now on."""
        self._call = call
        self._thread.start()
        return call

    def moved(self, size: int) -> None:
        """Count useful bytes."""
        self._pace.moved(size)

    def __enter__(self) -> Watched:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._call is not None:
            self._call.cancel()
        if self.stalled:
            raise RemoteProblem("slow", self._pace.problem) from None

    def _watch(self) -> None:
        while not self._over.wait(max(0.01, self._pace.left())):
            if self._pace.left() <= 0:
                self.stalled = True
                self._call.cancel()
                return
