"""Builds on caches that fail at random, the same for each seed: never a wrong artifact, never a failed build."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

SAMPLE = 2
SEEDS = [pytest.param(seed, marks=[] if seed < SAMPLE else [pytest.mark.exhaustive]) for seed in range(70)]


@pytest.fixture(scope="module")
def expected() -> Callable[[Any, Any], None]:
    """Checks a workspace's outputs against those of a build without a cache, in a workspace that it makes once."""
    known: dict[str, Any] = {}

    def check(made: Any, place: Any) -> None:
        if not known:
            plain = place("plain")
            plain.build()
            known.update(plain.outputs())
        assert made.outputs() == known

    return check


def quick(place: Any, address: str) -> None:
    place.write({"MODELBUILD.toml": f'rules = ["//tools/rules"]\n[remote]\ncache = "{address}"\ntimeout = 1\n'})


def both(place: Any, expected: Any, address: str) -> list[Any]:
    """Run a build that uploads and one that downloads."""
    ended = []
    for name in ("one", "two"):
        made = place(name)
        quick(made, address)
        ended.append(made.build())
        expected(made, place)
        notices = [line for line in ended[-1].err.splitlines() if "remote cache" in line]
        assert len(notices) <= 2, notices
    return ended


@pytest.mark.parametrize("seed", SEEDS)
def test_a_server_that_fails_at_random(place: Any, serve: Any, fake_server: Any, expected: Any, seed: int) -> None:
    server = serve(zstd=seed % 2 == 0, fault=fake_server.seeded(seed, 0.3))
    server.slow = 1.2 if seed % 5 == 0 else 0.1
    both(place, expected, server.address)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_line_that_breaks_at_random(place: Any, shared_casd: Any, proxies: Any, expected: Any, seed: int) -> None:
    proxy = proxies.Proxy(shared_casd.port, proxies.seeded(seed, 0.08))
    try:
        both(place, expected, f"grpc://127.0.0.1:{proxy.port}/")
    finally:
        proxy.close()


@pytest.mark.parametrize("seed", [p for p in SEEDS if p.values[0] < 60])
def test_a_server_that_is_killed(place: Any, casd: Any, proxies: Any, expected: Any, seed: int) -> None:
    """Break the connection during an upload or a download after an amount of data; it recovers for the next."""
    proxy = proxies.Proxy(casd.port, lambda n: casd.kill() or "" if n == 5 + 2 * seed else "")
    try:
        both(place, expected, f"grpc://127.0.0.1:{proxy.port}")
        casd.kill()
        casd.start()
        three = place("three")
        quick(three, casd.address)
        three.build()
        expected(three, place)
    finally:
        proxy.close()
