"""Sizes and latencies of a build's targets, compared with earlier values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from modelbuild.events import Event, TargetBuilt, TestFinished
from modelbuild.history.regressions import LATENCY_OF, noise
from modelbuild.ids import TargetId

# Return the base's value of (subject, name), or None; and earlier values. See modelbuild.history.
Before: TypeAlias = Callable[[str, str], float | None]
Earlier: TypeAlias = Callable[[str, str], Sequence[float]]

# The measures that reports show, by name.
SHOWN = {
    "bytes": "size (bytes)",
    "latency_ms": "latency (ms)",
    "latency_p95_ms": "95th percentile of the latency (ms)",
    "memory": "memory (bytes)",
    "peak_memory": "peak memory (bytes)",
    "delegates": "delegates",
}
# Suffix of documents, such as a model's signature. A target that has no other outputs is listed without a size.
_DOCUMENT = ".json"
_ON_DEVICES = ("latency_ms", "latency_p95_ms", "peak_memory")  # or the beginning of a name


def titles_of(names: Collection[str]) -> dict[str, str]:
    """Return the names of measures that reports show, with their titles."""
    methods = [name.removeprefix(LATENCY_OF) for name in names if name.startswith(LATENCY_OF)]
    found = {name: title for name, title in SHOWN.items() if name in names}
    return found | {f"{LATENCY_OF}{method}": f"latency of {method} (ms)" for method in methods}


@dataclass(frozen=True, slots=True)
class Measure:
    """A value and the base's value, or None.

    title   the measure's name for people
    change  the difference relative to the base, such as `+1.2%`, or ''
    unsure  why the change may be noise, or ''
    device  label of the device that it was measured on; '' if measured on this machine, or independent of a device
    """

    subject: str
    title: str
    now: float
    before: float | None
    change: str
    unsure: str
    device: str = ""

    @property
    def growth(self) -> float:
        """The relative change (0.5: half as much again), or 0 if it is uncertain."""
        return (self.now - self.before) / self.before if self.before and self.change and not self.unsure else 0.0


@dataclass(slots=True)
class Comparison:
    """Collects events.

    before   the values that the build is compared with, called `title`
    earlier  values by which a change is marked as noise
    sizes    returns bytes of outputs
    """

    before: Before
    earlier: Earlier
    sizes: Callable[[Sequence[str]], int]
    title: str = "before"
    _values: dict[str, dict[str, float]] = field(default_factory=dict)
    _devices: dict[str, str] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        match event:
            case TargetBuilt() if not all(path.endswith(_DOCUMENT) for path in event.outputs):
                self._of(event)["bytes"] = float(self.sizes(event.outputs))
            case TestFinished() if event.measures:
                self._of(event).update(event.measures)
                if event.device:
                    self._devices[TargetId.of(event.label, event.config)] = event.device

    def _of(self, event: TargetBuilt | TestFinished) -> dict[str, float]:
        return self._values.setdefault(TargetId.of(event.label, event.config), {})

    def measures(self) -> Iterator[Measure]:
        """Yield the measures that reports show."""
        for subject, values in self._values.items():
            for name, title in titles_of(values).items():
                yield self._measure(subject, name, title, values[name])

    def _measure(self, subject: str, name: str, title: str, now: float) -> Measure:
        device = self._devices.get(subject, "") if name.startswith(_ON_DEVICES) else ""
        before = self.before(subject, name)
        if not before or before == now:
            return Measure(subject, title, now, before, "", "", device)
        unsure = noise(name, self.earlier(subject, name), before, now)
        return Measure(subject, title, now, before, f"{(now - before) / before:+.1%}", unsure, device)


def by_device(measures: Iterable[Measure]) -> list[Measure]:
    """Return the measures of devices, the worst regression first."""
    return sorted((each for each in measures if each.device), key=lambda each: -each.growth)
