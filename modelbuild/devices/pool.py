"""The devices of one kind: each is asked for its facts once, and devices with the same identity form a pool."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from modelbuild.device_runners import DeviceRunner, DeviceSpec
from modelbuild.devices.device import Device, DeviceSession
from modelbuild.devices.facts import Facts
from modelbuild.devices.problems import Busy, DeviceProblem

_AT_ONCE = 16

# Seconds to wait for a device that other sessions use.
WAIT = 600.0
# Seconds between two queries for a free device among several.
_POLL = 2.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A runner, and the answer of its device: facts, or the reason, in one line, why the device cannot be used.
    `device` is the open connection to a device that can be used."""

    runner: DeviceRunner
    facts: Facts | None
    problem: str = ""
    device: Device | None = None


def ask_all(spec: DeviceSpec, root: Path) -> list[Asked]:
    """Ask the devices behind all runners at once, in the order of the runners. `root`: the workspace, to which paths of
    runners are relative."""
    runners = [_resolved(runner, root) for runner in spec.runners]
    if not runners:
        return []
    with ThreadPoolExecutor(min(_AT_ONCE, len(runners)), "device") as pool:
        return list(pool.map(lambda runner: _ask(runner, spec), runners))


def _ask(runner: DeviceRunner, spec: DeviceSpec) -> Asked:
    try:
        device = Device(runner)
    except DeviceProblem as problem:
        return Asked(runner, None, problem.message)
    mismatch = device.facts.mismatch(spec)
    if mismatch:
        device.close()
    return Asked(runner, device.facts, mismatch, None if mismatch else device)


def _resolved(runner: DeviceRunner, root: Path) -> DeviceRunner:
    """Return a runner whose paths on this machine are absolute."""
    key, known_hosts = (
        str(root / Path(text).expanduser()) if text else "" for text in (runner.key, runner.known_hosts)
    )
    command, check = (
        (str(root / words[0]), *words[1:]) if words and "/" in words[0] else words
        for words in (runner.command, runner.check)
    )
    return replace(runner, key=key, known_hosts=known_hosts, command=command, check=check)


def with_runners(label: str, spec: DeviceSpec, given: Sequence[tuple[str, DeviceRunner]]) -> DeviceSpec:
    """Return a device with the runners of `--runner` instead of the declared runners, if `--runner` has its label."""
    own = tuple(runner for name, runner in given if name == label)
    return replace(spec, runners=own) if own else spec


class Pool:
    """The devices behind a device's runners with the identity of the first usable device. Safe for many threads; only
    one thread at a time uses a device.

    unmet     why no device can be used, in one line; '' if a device can
    identity  the identity of all devices; empty if there is no device
    """

    def __init__(self, label: str, spec: DeviceSpec, root: Path) -> None:
        asked = ask_all(spec, root)
        devices = [each.device for each in asked if each.device is not None]
        self.identity = devices[0].facts.identity() if devices else {}
        self.unmet = "" if devices else _unmet(label, asked)
        self._all = [each for each in devices if each.facts.identity() == self.identity]
        for other in devices:
            if other not in self._all:
                other.close()
        self._closed = threading.Event()
        self._idle: queue.SimpleQueue[Device] = queue.SimpleQueue()
        for each in self._all:
            self._idle.put(each)

    @contextmanager
    def session(self, purpose: str, say: Callable[[str], None], wait: float = WAIT) -> Iterator[DeviceSession]:
        """Yield a session with a free device, or with the first device that becomes free. Raises DeviceProblem if no
        device becomes free or can be used."""
        taken = [self._idle.get()]
        while not self._idle.empty():
            try:
                taken.append(self._idle.get_nowait())
            except queue.Empty:
                break
        with ExitStack() as stack:
            try:
                self._check_open()
                session, device = self._first(stack, taken, purpose, say, wait)
            except BaseException:
                for each in taken:
                    self._idle.put(each)
                raise
            for other in taken:
                if other is not device:
                    self._idle.put(other)
            stack.callback(self._idle.put, device)
            yield session

    def _first(
        self, stack: ExitStack, devices: list[Device], purpose: str, say: Callable[[str], None], wait: float
    ) -> tuple[DeviceSession, Device]:
        """Enter a session with the first free device. A device that cannot be used is skipped if other devices can be
        used."""
        if len(devices) == 1:  # a session with one device waits itself
            self._reconnect(devices[0])
            return stack.enter_context(devices[0].session(purpose, wait, say)), devices[0]
        deadline = time.monotonic() + wait
        usable, told = list(devices), False
        while True:
            late = time.monotonic() >= deadline
            holders = []
            for device in list(usable):
                try:
                    self._reconnect(device)
                    return stack.enter_context(device.session(purpose, 0, lambda text: None)), device
                except Busy as busy:
                    holders.append(busy.holder)
                except DeviceProblem:
                    usable.remove(device)
                    if not usable:
                        raise
            if late:
                raise Busy(f"all are in use for more than {wait:.0f} s, by {'; '.join(holders)}; expected a free one")
            if not told:
                say(f"in use by {'; '.join(holders)}; waiting up to {wait:.0f} s for the first")
                told = True
            self._closed.wait(_POLL)
            self._check_open()

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise DeviceProblem("interrupted")

    def _reconnect(self, device: Device) -> None:
        """Connect again if the connection was lost. Raises DeviceProblem if that fails, and for another device."""
        if device.shell.lost():
            device.reopen()
            if device.facts.identity() != self.identity:
                raise DeviceProblem("it is another device than before; expected the same one")

    def interrupt(self) -> None:
        """End the sessions of all threads, and allow no further session."""
        self._closed.set()
        for device in self._all:
            device.interrupt()

    def close(self) -> None:
        for device in self._all:
            device.close()


def _unmet(label: str, asked: Sequence[Asked]) -> str:
    if not asked:
        return f"no device: {label} has no runner; expected `runners` of the device_target, or --runner {label}=ADDRESS"
    return f"no device: {'; '.join(f'{each.runner.address}: {each.problem}' for each in asked)}"
