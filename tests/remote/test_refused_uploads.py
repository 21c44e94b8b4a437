"""Read-only caches, and caches that refuse large blobs: the notices, and the remaining uploads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

STAY = "continuing without uploads: results of this build stay here"


def notices(text: str) -> list[str]:
    return [line for line in text.splitlines() if "remote cache" in line]


def changed(place: Any, name: str) -> Any:
    """Return a workspace in which the second action differs from elsewhere."""
    made = place(name)
    step = (made.root / "tools/rules/steps/checksums.py").read_text()
    made.write({"tools/rules/steps/checksums.py": f"{step}\n# {name}\n"})
    return made


@pytest.mark.exhaustive
def test_an_http_cache_that_forbids_writing_is_read(place: Any, start_nginx: Callable[..., str]) -> None:
    place("one").build(f"--remote-cache={start_nginx()}")
    address = start_nginx(allowed="GET")
    two = changed(place, "two")
    ended = two.build(f"--remote-cache={address}")
    assert ended.statuses == {"//a:made#blobs": "cached", "//a:sums#checksums": "ran"}
    assert len(two.outputs()) == 6
    (said,) = notices(ended.err)
    assert said.startswith(f"note: remote cache {address}: PUT cas/")
    assert said.endswith(f": HTTP 403 Forbidden; {STAY}")


@pytest.mark.parametrize("code", ["PERMISSION_DENIED", "UNAUTHENTICATED", "RESOURCE_EXHAUSTED"])
@pytest.mark.parametrize("method", ["BatchUpdateBlobs", "UpdateActionResult"])
def test_a_grpc_cache_that_refuses_writing_is_read(place: Any, serve: Any, method: str, code: str) -> None:
    server = serve()
    place("one").build(f"--remote-cache={server.address}")
    server.fault = lambda name: code if name == method else ""
    server.calls.clear()
    ended = changed(place, "two").build(f"--remote-cache={server.address}")
    assert ended.statuses == {"//a:made#blobs": "cached", "//a:sums#checksums": "ran"}
    assert notices(ended.err) == [f"note: remote cache {server.address}: {method}: {code}: asked for; {STAY}"]
    assert server.calls[method] == 1


def big_ones_stay(place: Any, address: str, largest: str) -> None:
    """One of two results has a blob that is too big; the other result is shared."""
    ended = place("one").build(f"--remote-cache={address}")
    assert set(ended.statuses.values()) == {"ran"}
    (said,) = notices(ended.err)
    assert said.startswith(f"note: remote cache {address}: ")
    assert largest in said
    assert said.endswith("; results with such a blob stay here")
    ended = place("two").build(f"--remote-cache={address}")
    assert ended.statuses == {"//a:made#blobs": "ran", "//a:sums#checksums": "cached"}
    assert len(notices(ended.err)) == 1


@pytest.mark.exhaustive
def test_an_http_cache_that_takes_no_big_blobs_takes_the_others(place: Any, start_nginx: Callable[..., str]) -> None:
    big_ones_stay(place, start_nginx(largest=300_000), ": HTTP 413 Request Entity Too Large")


def test_a_grpc_cache_that_takes_no_big_blobs_takes_the_others(place: Any, serve: Any) -> None:
    server = serve()
    server.largest = 300_000
    big_ones_stay(place, server.address, "it accepts no blob above 300000 bytes")
    assert server.calls["Write"] == 0


@pytest.mark.parametrize(
    "said",
    [
        "SERVER: Received message larger than max (300000 vs. 200000)",
        "grpc: received message larger than max (300000 vs. 200000)",
        "gRPC message exceeds maximum size 200000: 300000",
    ],
)
def test_a_message_that_is_too_big_is_told_apart_from_a_full_disk(place: Any, serve: Any, said: str) -> None:
    server = serve(fault=lambda name: f"RESOURCE_EXHAUSTED: {said}" if name == "Write" else "")
    big_ones_stay(place, server.address, f"Write: RESOURCE_EXHAUSTED: {said}")
