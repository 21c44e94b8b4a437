"""Checks of a device: its system, GPU, disk, store, lock and clock, and whether the runtime starts there."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from modelbuild.api.probe import DeviceRuntime, Finding
from modelbuild.devices.device import local_file
from modelbuild.devices.exchange import ExchangeLimits, call
from modelbuild.devices.pool import ask_all
from modelbuild.devices.problems import Busy, DeviceProblem, cut
from modelbuild.devices.scripts import CLOCK, STORE
from modelbuild.wording import size_text

if TYPE_CHECKING:
    from modelbuild.device_runners import DeviceSpec
    from modelbuild.devices.device import Device, DeviceSession
    from modelbuild.devices.facts import Facts
    from modelbuild.devices.pool import Asked

# Free bytes on a device's disk: a job with a large model needs the first number, any job the second.
_PLENTY, _LITTLE = 10 << 30, 1 << 30
# Seconds.
_CLOCKS, _START = 60, 60


def check_device(spec: DeviceSpec, root: Path, runtimes: Sequence[DeviceRuntime]) -> Iterator[Finding]:
    """Yield the findings of the devices behind all runners, each with the runner in its name. `root`: the workspace."""

    if not spec.runners:
        fix = "expected `runners` of the device_target, or --runner LABEL=ADDRESS"
        yield Finding("runner", "error", "the device has no runner", fix)
    for asked in ask_all(spec, root):
        runner = asked.runner.name.partition("?")[0]
        try:
            for each in _of(asked, spec, runtimes):
                yield Finding(f"{runner} {each.name}", each.status, each.text, each.fix)
        finally:
            if asked.device is not None:
                asked.device.close()


def _of(asked: Asked, spec: DeviceSpec, runtimes: Sequence[DeviceRuntime]) -> Iterator[Finding]:

    if asked.facts is None:
        yield Finding("device", "error", asked.problem, "see docs/how-to/test-on-a-device.md")
        return
    yield Finding("device", "error" if asked.problem else "ok", asked.problem or _described(asked.facts))
    values = asked.facts.values
    known = [text for name in ("os", "image", "kernel", "libc") if (text := values.get(name, ""))]
    yield Finding("system", "ok" if known else "warning", ", ".join(known) or "the device does not state it")
    yield _gpu(asked.facts, spec)
    yield _disk(asked.facts)
    yield _lock(asked.facts)
    if asked.device is None:
        return
    try:
        yield _store(asked.device)
        yield _clock(asked.device)
        for runtime in runtimes:
            yield _starts(asked.device, runtime)
    except DeviceProblem as problem:
        yield Finding("connection", "error", problem.message)


def _described(facts: Facts) -> str:
    memory = f", {size_text(facts.memory)} memory" if facts.memory >= 0 else ""
    cores = f", {facts.values['cpus']} cores" if facts.values.get("cpus") else ""
    return f"{facts.name()}, {facts.values['arch']}{cores}{memory}"


def _gpu(facts: Facts, spec: DeviceSpec) -> Finding:
    if facts.gpus:
        return Finding("gpu", "ok", "; ".join(facts.gpus))
    if spec.compute_capabilities:
        expected = " or ".join(spec.compute_capabilities)
        text = f"nvidia-smi states no GPU; expected compute capability {expected}, as declared"
        return Finding("gpu", "warning", text, "check that nvidia-smi works there; JetPack 5 has none")
    return Finding("gpu", "ok", "none")


def _disk(facts: Facts) -> Finding:
    if facts.free < 0:
        return Finding("disk", "error", "the folder for files and jobs cannot be made", "set `folder` of the runner")
    text = f"{size_text(facts.free)} free"
    if facts.free >= _PLENTY:
        return Finding("disk", "ok", text)
    fix = "free some space there, or set `folder` of the runner"
    return Finding(
        "disk", "error" if facts.free < _LITTLE else "warning", f"{text}; expected {size_text(_PLENTY)}", fix
    )


def _lock(facts: Facts) -> Finding:
    if facts.owner is None:
        return Finding("lock", "ok", "free")
    return Finding("lock", "warning", f"in use by {facts.owner or 'another session'}", "wait, or use another device")


def _store(device: Device) -> Finding:

    printed = call(device.shell, STORE, device.runner.folder, limits=ExchangeLimits(60, 60, 1 << 12)).split()
    if len(printed) != 2 or not all(each.isdecimal() and len(each) < 19 for each in printed):
        return Finding("store", "error", "the device does not state its size; expected a POSIX shell")
    files, size = int(printed[0]), int(printed[1]) * 1024
    return Finding("store", "ok", f"{files} files, {size_text(size)} of at most {size_text(device.runner.store_size)}")


def _clock(device: Device) -> Finding:

    before = time.time()
    printed = call(device.shell, CLOCK, device.runner.folder, limits=ExchangeLimits(60, 60, 1 << 12)).strip()
    after = time.time()
    if not printed.isdecimal() or len(printed) > 15:
        return Finding("clock", "warning", "the device does not state its time")
    # The device's second began at most a second before it was printed.
    off = max(before - (int(printed) + 1), int(printed) - after, 0.0)
    if off < _CLOCKS:
        return Finding("clock", "ok", "within a second of this machine's" if off < 1 else f"off by {off:.0f} s")
    text = f"off by {off:.0f} s; expected this machine's time"
    return Finding("clock", "warning", text, "set it; no result depends on it, but times in the device's logs do")


def _starts(device: Device, runtime: DeviceRuntime) -> Finding:
    """Return whether the runtime starts on the device, which loads its libraries."""

    try:
        folder = runtime.find(device.facts.values["arch"])
    except LookupError as error:
        return Finding(runtime.name, "warning", f"not checked: {error.args[0]}")
    try:
        with device.session("modelbuild doctor", 0, lambda text: None) as session:
            return _started(session, runtime, folder)
    except Busy as busy:
        return Finding(runtime.name, "warning", f"not checked: {busy.message}")


def _started(session: DeviceSession, runtime: DeviceRuntime, folder: Path) -> Finding:

    files = {f"runtime/{place}": local_file(folder / place) for place in runtime.files(folder)}
    session.put(files)
    ended = session.run("check", [*session.shell.prefix, f"runtime/{runtime.program}", "--help"], _START)
    if not ended.status:
        return Finding(runtime.name, "ok", f"starts ({len(files)} files)")
    lines: list[str] = []
    with TemporaryDirectory() as made, suppress(OSError):
        session.get(Path(made))
        lines = (Path(made) / "check/stderr").read_text(errors="replace").strip().splitlines()
    reason = cut(lines[-1]) if lines else f"it ended with exit status {ended.status}"
    return Finding(runtime.name, "error", f"does not start: {reason}", "see docs/reference/runtime.md#architectures")
