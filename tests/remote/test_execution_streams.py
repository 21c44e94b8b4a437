"""Silent streams of operations, of busy servers and of vanished ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from modelbuild.actions import Digest
from modelbuild.remote.execution import service
from modelbuild.remote.execution.service import Execution
from modelbuild.remote.messages import message
from modelbuild.remote.problems import RemoteProblem
from modelbuild.workspace.remote_address import parse_address
from modelbuild.workspace.remote_settings import RemoteSettings

ACTION = Digest("a" * 64, 7)


@pytest.fixture
def start(fake_server: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Return a server whose action ends after `ends` seconds and is reported at once or only then, and a client of
    it."""
    monkeypatch.setattr(service, "_STREAM", 0.3)
    monkeypatch.setattr(service, "_PAUSE", 0.01)
    made: list[Any] = []

    class Server(fake_server.FakeServer):  # type: ignore[misc]
        ends, told = 0.0, True
        status = 0

        def Execute(self, request: Any, context: Any, fault: str) -> Iterator[Any]:
            yield from self._operation(context, self.told)

        def WaitExecution(self, request: Any, context: Any, fault: str) -> Iterator[Any]:
            yield from self._operation(context, False)

        def _operation(self, context: Any, told: bool) -> Iterator[Any]:
            operation = message("google.longrunning.Operation")(name="operation-7")
            operation.metadata.Pack(message("ExecuteOperationMetadata")(stage=2))
            if told:
                yield operation
            while time.monotonic() < self.end:
                if not context.is_active():
                    return
                time.sleep(0.02)
            operation.done = True
            operation.metadata.Pack(message("ExecuteOperationMetadata")(stage=4))
            response = message("ExecuteResponse")(message="ended")
            response.status.code = self.status
            operation.response.Pack(response)
            yield operation

    def begin(ends: float, told: bool = True) -> tuple[Any, Execution]:
        server = Server()
        server.end, server.told = time.monotonic() + ends, told
        client = Execution(parse_address(server.address), RemoteSettings(timeout=1))
        made.extend((client, server))
        return server, client

    yield begin
    for each in made:
        each.close()


def test_an_action_that_takes_long_is_waited_for_in_silence(start: Any) -> None:
    server, client = start(ends=3)
    told: list[int] = []
    assert client.execute(ACTION, False, told.append).message == "ended"
    assert (told[0], told[-1]) == (2, 4)
    assert server.calls["Execute"] == 1
    assert server.calls["WaitExecution"] > service._BREAKS


def test_a_server_that_never_takes_an_action_is_given_up(start: Any) -> None:
    server, client = start(ends=60, told=False)
    with pytest.raises(RemoteProblem) as caught:
        client.execute(ACTION, False, lambda stage: None)
    assert caught.value.kind == "slow"
    assert server.calls["Execute"] == service._BREAKS


def test_a_server_that_answers_nothing_any_more_is_given_up(start: Any) -> None:
    server, client = start(ends=60)
    server.fault = lambda method: "UNAVAILABLE" if method == "GetCapabilities" else ""
    with pytest.raises(RemoteProblem):
        client.execute(ACTION, False, lambda stage: None)
    assert server.calls["WaitExecution"] == service._BREAKS


def test_an_action_that_the_server_ended_at_its_limit_is_late(start: Any) -> None:
    server, client = start(ends=0)
    server.status = 4  # DEADLINE_EXCEEDED
    with pytest.raises(RemoteProblem) as caught:
        client.execute(ACTION, False, lambda stage: None)
    assert caught.value.kind == "late"
