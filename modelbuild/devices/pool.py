"""The devices of a build: each is asked once, and several of a kind are a pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from modelbuild.device_runners import DeviceRunner, DeviceSpec
from modelbuild.devices.device import Device
from modelbuild.devices.facts import Facts
from modelbuild.devices.problems import DeviceProblem

_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Asked:
    """A runner, and what its device answered: facts, or the reason in one line why it cannot be used."""

    runner: DeviceRunner
    facts: Facts | None
    problem: str = ""


def ask_all(spec: DeviceSpec, root: Path) -> list[Asked]:
    """Ask the devices behind all runners at once, in the order of the runners. `root`: the workspace, to which paths of
    runners are relative."""
    runners = [resolved(runner, root) for runner in spec.runners]
    if not runners:
        return []
    with ThreadPoolExecutor(min(_AT_ONCE, len(runners)), "device") as pool:
        return list(pool.map(lambda runner: _ask(runner, spec), runners))


def _ask(runner: DeviceRunner, spec: DeviceSpec) -> Asked:
    try:
        device = Device(runner)
    except DeviceProblem as problem:
        return Asked(runner, None, problem.message)
    device.close()
    return Asked(runner, device.facts, device.facts.mismatch(spec))


def resolved(runner: DeviceRunner, root: Path) -> DeviceRunner:
    """Return a runner whose paths on this machine are absolute."""
    paths = {name: str(root / Path(text).expanduser()) if text else "" for name, text in _paths(runner).items()}
    return replace(runner, **paths)  # type: ignore[arg-type]  # both are texts


def _paths(runner: DeviceRunner) -> Mapping[str, str]:
    return {"key": runner.key, "known_hosts": runner.known_hosts}


def runners_of(label: str, spec: DeviceSpec, given: Sequence[tuple[str, DeviceRunner]]) -> DeviceSpec:
    """Return a device with the runners of `--runner` in place of the declared ones, if there are any for its label."""
    own = tuple(runner for name, runner in given if name == label)
    return replace(spec, runners=own) if own else spec
