"""The Execution service: one action, from the request to the answer, over lines that break."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from modelbuild.actions import Digest
from modelbuild.remote.grpc_call import open_channel, translated
from modelbuild.remote.messages import REAPI, Stub, message
from modelbuild.remote.problems import Kind, RemoteProblem
from modelbuild.remote.results import to_message
from modelbuild.remote.token import Token
from modelbuild.workspace.remote_address import Address
from modelbuild.workspace.remote_settings import RemoteSettings

# The stream of an action may be silent for as long as it runs: so it is taken up anew after so many seconds, and the
# server is asked something that it has to answer.
_STREAM = 60.0
# Times that a stream may break off without any news before the server counts as down.
_BREAKS = 4
_PAUSE = 0.3

# google.rpc.Code
_FAILED_PRECONDITION = 9


class Execution:
    """Execute and WaitExecution. Safe for many threads."""

    def __init__(self, address: Address, settings: RemoteSettings) -> None:
        self.name = str(address)
        self._instance = address.path
        self._token = Token(settings.security)
        self._channel = open_channel(address, settings.security)
        self._stub = Stub(self._channel, REAPI + "Execution")
        self._capabilities = Stub(self._channel, REAPI + "Capabilities")
        self._timeout = settings.timeout
        self._lock = threading.Lock()
        self._calls: set[Any] = set()
        self._closed = False

    def execute(self, action: Digest, fresh: bool, told: Callable[[int], None]) -> Any:
        """Run an action; returns its ExecuteResponse. `fresh`: not out of the server's cache. `told` is told each
        stage that the server says it is in (ExecutionStage.Value). Raises RemoteProblem: 'missing' when the server
        lacks an input."""
        name = ""
        breaks = 0
        while True:
            try:
                operation = self._follow(action, fresh, name, told)
            except _Broken as broken:
                name = broken.name or name
                breaks = 0 if broken.moved else breaks + 1
                if breaks == _BREAKS or self._closed:
                    raise broken.problem from None
                # A server that does not know the operation any more is asked to begin again.
                if broken.problem.kind == "missing":
                    name = ""
                time.sleep(_PAUSE * 2**breaks)
                continue
            return self._answer(operation)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            calls = list(self._calls)
        for call in calls:
            call.cancel()
        self._channel.close()

    def _follow(self, action: Digest, fresh: bool, name: str, told: Callable[[int], None]) -> Any:
        """The operation when it is done. Raises _Broken when the stream ends before."""
        moved = False
        call = None
        try:
            with translated():
                call = self._start(action, fresh, name)
                for operation in call:
                    name, moved = operation.name, True
                    told(_stage(operation))
                    if operation.done:
                        return operation
            raise RemoteProblem("down", "the stream ended before the action did")
        except RemoteProblem as problem:
            if problem.kind in ("refused", "full", "wrong"):
                raise
            # Some servers are silent until the action ends; before they know of it they have no reason to be.
            waits = problem.kind == "slow" and bool(name)
            raise _Broken(problem, name, moved or (waits and self._alive())) from None
        finally:
            if call is not None:
                with self._lock:
                    self._calls.discard(call)
                call.cancel()

    def _alive(self) -> bool:
        request = message("GetCapabilitiesRequest")(instance_name=self._instance)
        try:
            with translated():
                self._capabilities.GetCapabilities(request, timeout=self._timeout, metadata=self._token.headers())
        except RemoteProblem:
            return False
        return True

    def _start(self, action: Digest, fresh: bool, name: str) -> Any:
        headers = self._token.headers()
        with self._lock:
            if self._closed:
                raise RemoteProblem("refused", "interrupted")
            if name:
                wait = message("WaitExecutionRequest")(name=name)
                call = self._stub.WaitExecution(wait, timeout=_STREAM, metadata=headers)
            else:
                request = message("ExecuteRequest")(
                    instance_name=self._instance, action_digest=to_message(action), skip_cache_lookup=fresh
                )
                call = self._stub.Execute(request, timeout=_STREAM, metadata=headers)
            self._calls.add(call)
            return call

    def _answer(self, operation: Any) -> Any:
        status = operation.error
        if operation.WhichOneof("result") == "response":
            answer = message("ExecuteResponse")()
            if not operation.response.Unpack(answer):
                raise RemoteProblem("wrong", f"it answered with {operation.response.type_url[:80]}")
            if answer.status.code == 0:
                return answer
            status = answer.status
        kind: Kind = "missing" if status.code == _FAILED_PRECONDITION else "down"
        raise RemoteProblem(kind, f"it could not run the action: {status.message or status.code}")


def _stage(operation: Any) -> int:
    """The stage that an operation tells; 0 where it tells none."""
    from google.protobuf.message import DecodeError

    metadata = message("ExecuteOperationMetadata")()
    with suppress(DecodeError):
        operation.metadata.Unpack(metadata)
    return int(metadata.stage)


class _Broken(Exception):
    """A stream ended early. `moved`: whether the server showed that it lives."""

    def __init__(self, problem: RemoteProblem, name: str, moved: bool) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.name = name
        self.moved = moved
