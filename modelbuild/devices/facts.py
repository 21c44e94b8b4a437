"""The facts that a device reports about itself, and its identity: the facts that decide results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from modelbuild.device_runners import DeviceRunner, DeviceSpec
from modelbuild.devices.exchange import ExchangeLimits, call
from modelbuild.devices.problems import DeviceProblem
from modelbuild.devices.scripts import FACTS
from modelbuild.devices.shells import Shell
from modelbuild.lines import one_line

# An identity contains everything that can change an output or a latency. It contains no names, addresses or free space,
# so boards of one kind share results.
_IDENTITY = ("arch", "cpu", "cpus", "driver", "gpu", "image", "kernel", "libc", "model", "os", "power")
_KNOWN = (*_IDENTITY, "memory", "free", "owner", "lacks")
_LINE = re.compile(r"([a-z]{1,16})\t([ -~]{0,200})")


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about a device, each as text. Each of `gpus` is `NAME, CAPABILITY, DRIVER`.

    owner  of the lock, if a session holds it; None if the device is free
    free   free bytes of its file system; -1 if unknown
    """

    values: Mapping[str, str]
    gpus: tuple[str, ...] = ()
    owner: str | None = None
    free: int = -1
    memory: int = -1

    def identity(self) -> dict[str, str]:
        """Return the part of the facts that is in keys of results."""
        found = {name: text for name in _IDENTITY if (text := self.values.get(name, ""))}
        return {**found, **({"gpu": "; ".join(self.gpus)} if self.gpus else {})}

    def name(self) -> str:
        """Return the device's own name."""
        return self.values.get("model") or self.values.get("cpu") or "unknown model"

    def mismatch(self, spec: DeviceSpec) -> str:
        """Return the property in which the device differs from its declaration; '' if it differs in none."""
        arch = self.values["arch"]
        if spec.arch and arch != spec.arch:
            return f"it is {arch}; expected {spec.arch}, as declared"
        capabilities = [gpu.split(", ")[1] for gpu in self.gpus if gpu.count(", ") == 2]
        if spec.compute_capabilities and capabilities and set(capabilities).isdisjoint(spec.compute_capabilities):
            found, expected = ", ".join(capabilities), " or ".join(spec.compute_capabilities)
            return f"its GPU has compute capability {found}; expected {expected}, as declared"
        return ""


def ask(shell: Shell, runner: DeviceRunner) -> Facts:
    """Return a device's facts. Raises DeviceProblem for a device that cannot be used, or that reports anything else."""
    return parse(call(shell, FACTS, runner.folder, limits=ExchangeLimits(60, 60, 1 << 16)), runner, shell.emulator)


def parse(text: str, runner: DeviceRunner, emulator: str = "") -> Facts:
    """Parse the output of the script FACTS. Raises DeviceProblem for anything else, and for a device without the
    programs that scripts need."""
    values: dict[str, str] = {}
    gpus: list[str] = []
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        if found is None or found[1] not in _KNOWN:
            raise DeviceProblem(f"the device states '{one_line(line[:60])}'; expected facts about itself")
        name, value = found[1], " ".join(found[2].split())
        if name == "lacks":
            raise DeviceProblem(f"the device has no {value}; expected tar, sha256sum, flock, timeout and setsid")
        if name == "gpu":
            gpus.append(value)
        else:
            values[name] = value
    if not values.get("arch"):
        raise DeviceProblem("the device does not state its architecture; expected a Linux with a POSIX shell")
    if emulator:
        values, gpus = _emulated(values, runner, emulator), []
    free, memory = (_number(values.pop(name, "")) for name in ("free", "memory"))
    return Facts(values, tuple(gpus[:16]), values.pop("owner", None), free, memory)


def _emulated(values: Mapping[str, str], runner: DeviceRunner, emulator: str) -> dict[str, str]:
    """Return the facts of an emulated processor on this machine."""
    kept = {name: values[name] for name in ("os", "memory", "free", "owner") if name in values}
    return {**kept, "arch": runner.arch, "model": one_line(emulator)}


def _number(kilobytes: str) -> int:
    return int(kilobytes) * 1024 if kilobytes.isascii() and kilobytes.isdecimal() and len(kilobytes) < 16 else -1
