"""A pool of two devices: the first that becomes free, a device that is lost, and the end of a wait."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from modelbuild.device_runners import DeviceSpec, parse_address
from modelbuild.devices.device import Device
from modelbuild.devices.pool import Pool
from modelbuild.devices.problems import Busy, DeviceProblem
from tests.devices.sshd import Proxy, Sshd, wait_for


def hush(text: str) -> None:
    """Do nothing."""


@pytest.fixture
def addresses(tmp_path: Path) -> list[str]:
    return [f"local:?folder={tmp_path / name}" for name in ("one", "two")]


@pytest.fixture
def pool(addresses: list[str], tmp_path: Path) -> Iterator[Pool]:
    found = pool_of(addresses, tmp_path)
    yield found
    found.close()


def pool_of(addresses: list[str], root: Path) -> Pool:
    found = Pool("//:t", DeviceSpec(tuple(map(parse_address, addresses)), ""), root)
    assert not found.unmet
    return found


@pytest.mark.parametrize("freed", [0, 1])
def test_a_job_takes_the_first_device_that_becomes_free(pool: Pool, addresses: list[str], freed: int) -> None:
    others = [Device(parse_address(address)).session("//:other", 5, hush) for address in addresses]
    for each in others:
        each.__enter__()
    said: list[str] = []
    got: list[str] = []

    def work() -> None:
        with pool.session("//:waiting", said.append, 60) as session:
            got.append(session.runner.name)

    thread = threading.Thread(target=work)
    thread.start()
    wait_for(lambda: said, "the job does not wait")
    others[freed].__exit__(None, None, None)
    thread.join(20)
    others[1 - freed].__exit__(None, None, None)
    assert got == [addresses[freed]]
    assert len(said) == 1
    assert said[0].startswith("in use by ")
    assert said[0].count("for //:other") == 2
    assert said[0].endswith("; waiting up to 60 s for the first")


def test_a_wait_for_all_devices_in_vain_ends_with_one_line(pool: Pool, addresses: list[str]) -> None:
    first, second = (Device(parse_address(address)).session("//:other", 5, hush) for address in addresses)
    with first, second, pytest.raises(Busy, match=r"all are in use for more than 0 s, by .*; expected a free one"):
        pool.session("//:waiting", hush, 0).__enter__()
    with pool.session("//:next", hush, 0), pool.session("//:beside", hush, 0):
        pass  # all devices are in the pool again


@pytest.mark.parametrize("lost", [0, 1])
def test_a_job_waits_for_a_device_that_is_in_use_when_the_other_is_lost(
    server: Sshd, tmp_path: Path, lost: int
) -> None:
    proxies = [Proxy(server.port) for _ in range(2)]
    addresses = [server.at(each.port, folder=tmp_path / f"{each.port}") for each in proxies]
    pool = pool_of(addresses, tmp_path)
    kept = server.at(server.port, folder=tmp_path / f"{proxies[1 - lost].port}")
    other = Device(parse_address(kept))
    try:
        proxies[lost].close()
        said: list[str] = []
        freed = threading.Event()

        def tell(text: str) -> None:
            said.append(text)
            freed.set()

        def hold() -> None:
            freed.wait(60)
            held.__exit__(None, None, None)

        held = other.session("//:other", 5, hush)
        held.__enter__()
        thread = threading.Thread(target=hold)
        thread.start()
        with pool.session("//:waiting", tell, 60) as session:
            assert session.runner.name == addresses[1 - lost]
        thread.join(20)
        assert len(said) <= 1
        with pool.session("//:next", hush, 60) as session:
            assert session.runner.name == addresses[1 - lost]
    finally:
        freed.set()
        other.close()
        pool.close()
        for each in proxies:
            each.close()


def test_an_interrupt_ends_a_wait_and_begins_no_session(pool: Pool, addresses: list[str]) -> None:
    said: list[str] = []
    problems: list[str] = []

    def work() -> None:
        try:
            with pool.session("//:waiting", said.append, 600):
                pass
        except DeviceProblem as problem:
            problems.append(str(problem))

    first, second = (Device(parse_address(address)).session("//:other", 5, hush) for address in addresses)
    with first, second, suppress(DeviceProblem):
        thread = threading.Thread(target=work)
        thread.start()
        wait_for(lambda: said, "the job does not wait")
        pool.interrupt()
        thread.join(20)
    assert problems == ["interrupted"]
    with pytest.raises(DeviceProblem, match="interrupted"):
        pool.session("//:late", hush).__enter__()
