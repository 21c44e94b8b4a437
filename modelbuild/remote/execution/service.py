"""The Execution service: runs one action, over unreliable connections."""

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
from modelbuild.remote.token import AccessToken
from modelbuild.workspace.remote_address import Address
from modelbuild.workspace.remote_settings import RemoteSettings

# The stream of an action may be silent while it runs. Therefore it is reopened after this many seconds, and the server
# must answer a request. A stream of an action that the server did not name yet has the timeout of any call.
_STREAM = 20.0
# Times that a stream may break without any progress before the server counts as down.
_BREAKS = 4
_PAUSE = 0.3

# By google.rpc.Code: FAILED_PRECONDITION and DEADLINE_EXCEEDED.
_KINDS: dict[int, Kind] = {9: "missing", 4: "late"}


class Execution:
    """Execute and WaitExecution. Safe for many threads."""

    def __init__(self, address: Address, settings: RemoteSettings) -> None:
        self.name = str(address)
        self._instance = address.path
        self._token = AccessToken(settings.security)
        self._channel = open_channel(address, settings.security)
        self._stub = Stub(self._channel, REAPI + "Execution")
        self._capabilities = Stub(self._channel, REAPI + "Capabilities")
        self._timeout = settings.timeout
        self._lock = threading.Lock()
        self._calls: set[Any] = set()
        self._closed = False

    def execute(self, action: Digest, fresh: bool, on_stage: Callable[[int], None]) -> Any:
        """Run an action; return its ExecuteResponse. `fresh`: skip the server's cache. `on_stage` is called with each
        stage that the server reports (ExecutionStage.Value). Raises RemoteProblem: 'missing' when the server lacks an
        input."""
        name = ""
        breaks = 0
        while True:
            try:
                operation = self._follow(action, fresh, name, on_stage)
            except _Broken as broken:
                name = broken.name or name
                breaks = 0 if broken.moved else breaks + 1
                if breaks == _BREAKS or self._closed:
                    raise broken.problem from None
                # If the server has forgotten the operation, start over.
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

    def _follow(self, action: Digest, fresh: bool, name: str, on_stage: Callable[[int], None]) -> Any:
        """Return the finished operation. Raises _Broken when the stream ends earlier."""
        moved = False
        call = None
        try:
            with translated():
                call = self._start(action, fresh, name)
                for operation in call:
                    # Empty messages are no progress.
                    name, moved = operation.name or name, moved or bool(operation.name)
                    on_stage(_stage(operation))
                    if operation.done:
                        return operation
            raise RemoteProblem("down", "the stream ended before the action did")
        except RemoteProblem as problem:
            if problem.kind in ("refused", "full", "wrong"):
                raise
            # Some servers are silent until the action ends, but they must answer before they know the action.
            waits = problem.kind == "slow" and bool(name)
            raise _Broken(problem, name, moved or (waits and self._alive())) from None
        finally:
            if call is not None:
                with self._lock:
                    self._calls.discard(call)
                call.cancel()

    def _alive(self) -> bool:
        """Return whether the server answers. Raises RemoteProblem if it is too slow for that."""
        request = message("GetCapabilitiesRequest")(instance_name=self._instance)
        try:
            with translated():
                self._capabilities.GetCapabilities(request, timeout=self._timeout, metadata=self._token.headers())
        except RemoteProblem as problem:
            if problem.kind == "slow":
                raise
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
                call = self._stub.Execute(request, timeout=min(_STREAM, self._timeout), metadata=headers)
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
        kind = _KINDS.get(status.code, "down")
        raise RemoteProblem(kind, f"it could not run the action: {status.message or status.code}")


def _stage(operation: Any) -> int:
    """Return the stage of an operation; 0 if it has none."""
    from google.protobuf.message import DecodeError

    metadata = message("ExecuteOperationMetadata")()
    with suppress(DecodeError):
        operation.metadata.Unpack(metadata)
    return int(metadata.stage)


class _Broken(Exception):
    """A stream ended early. `moved`: the server made progress or answered meanwhile."""

    def __init__(self, problem: RemoteProblem, name: str, moved: bool) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.name = name
        self.moved = moved
