"""Attributes, timeouts and resources that all test rules share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from modelbuild.api import Attrs, Dep, Duration, LabelOf, Resources, Size
from modelbuild_rules.providers import Program

# Timeouts in seconds and memory in bytes, by size.
_SECONDS = {"small": 60, "medium": 300, "large": 900, "enormous": 3600}
_MEMORY = {"small": 1 << 30, "medium": 2 << 30, "large": 4 << 30, "enormous": 8 << 30}


_LATENCY = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?(us|ms|s)")
_MILLISECONDS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


def parse_latency(text: float | str) -> float:
    """Return the milliseconds of a positive latency such as "8 ms". Raises ValueError for any other text."""
    match = _LATENCY.fullmatch(str(text)) if isinstance(text, str) else None
    milliseconds = float(match[1]) * _MILLISECONDS[match[2]] if match else 0.0
    if milliseconds <= 0:
        raise ValueError(f"'{str(text)[:40]}' is not a latency; expected one such as '8 ms', '250 us' or '1.5 s'")
    return milliseconds


Milliseconds = Annotated[float | str, AfterValidator(parse_latency)]


class Limits(Attrs):
    """Limits of a program."""

    bytes: Size | None = None
    """Maximum size of the .pte and the .ptd, such as "5 MB"."""

    memory: Size | None = None
    """Maximum memory of the process that runs the program."""

    partitions: int | None = None
    """Maximum number of partitions."""

    delegated: float | None = Field(default=None, ge=0, le=1)
    """Minimum fraction of the lowered graph's nodes that backends take."""


class Latency(Attrs):
    """Limits of the latency on the first case: against a baseline on this machine, or on a device."""

    ratio: float | None = Field(default=None, gt=0)
    """Maximum ratio of the median latency to the baseline's."""

    baseline: Annotated[Dep, LabelOf(Program)] | None = None
    """The baseline; by default eager PyTorch."""

    max: dict[str, Milliseconds] = Field(default_factory=dict)
    """With `on_device` or `estimated`: maximum median, such as "8 ms", by the device's label."""

    estimated: bool = False
    """Compare `max` with the estimate of `modelbuild inspect --cost`. A program whose time is unknown in part fails."""

    p95: dict[str, Milliseconds] = Field(default_factory=dict)
    """With `on_device`: maximum 95th percentile, by the device's label."""

    runs: int = Field(default=50, ge=1, le=100_000)
    """With `on_device`: number of measured runs, after a tenth as many for warmup."""


def budgets(limits: Limits, latency: Latency, on_device: bool) -> dict[str, float]:
    """Return the limits that a test checks, by the names of attributes, without limits of latencies on a device."""
    given: Mapping[str, Any] = {
        "limits.bytes": limits.bytes,
        "limits.partitions": limits.partitions,
        "limits.delegated": limits.delegated,
        "latency.ratio": None if on_device else latency.ratio,
        "limits.memory": None if on_device else limits.memory,
    }
    return {name: limit for name, limit in given.items() if limit is not None}


class TestAttrs(Attrs):
    """Attributes of every test."""

    size: Literal["small", "medium", "large", "enormous"] = "medium"
    """Limits: 1 minute and 1 GiB, 5 minutes and 2 GiB, 15 minutes and 4 GiB, an hour and 8 GiB."""

    timeout: Duration | None = None
    """Time limit, such as "30 min" or seconds; by default that of `size`."""

    gpus: int = Field(default=0, ge=0, le=64)
    """Number of GPUs that the test sees and uses."""

    flaky: bool = False
    """Run the test up to three times until it passes."""


def seconds(attrs: TestAttrs) -> float:
    """Return the test's timeout in seconds."""
    return float(attrs.timeout or _SECONDS[attrs.size])


def resources(attrs: TestAttrs) -> Resources:
    return Resources(memory=_MEMORY[attrs.size], gpu=attrs.gpus)
