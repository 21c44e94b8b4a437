"""Attributes, timeouts and resources that all test rules share."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from modelbuild.api import Attrs, Duration, Resources

# Timeouts in seconds and memory in bytes, by size.
_SECONDS = {"small": 60, "medium": 300, "large": 900, "enormous": 3600}
_MEMORY = {"small": 1 << 30, "medium": 2 << 30, "large": 4 << 30, "enormous": 8 << 30}


_LATENCY = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?(us|ms|s)")
_MILLISECONDS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


def parse_latency(text: float | str) -> float:
    """Return the milliseconds of a latency such as "8 ms". Raises ValueError for anything else, and for none."""
    match = _LATENCY.fullmatch(str(text)) if isinstance(text, str) else None
    milliseconds = float(match[1]) * _MILLISECONDS[match[2]] if match else 0.0
    if milliseconds <= 0:
        raise ValueError(f"'{str(text)[:40]}' is not a latency; expected one such as '8 ms', '250 us' or '1.5 s'")
    return milliseconds


Latency = Annotated[float | str, AfterValidator(parse_latency)]


class TestAttrs(Attrs):
    """Attributes of every test."""

    size: Literal["small", "medium", "large", "enormous"] = "medium"
    """Limits of the test: 1 minute and 1 GiB, 5 minutes and 2 GiB, 15 minutes and 4 GiB, or an hour and 8 GiB."""

    timeout: Duration | None = None
    """Duration after which the test fails, such as "30 min" or seconds; by default the limit of `size`."""

    gpus: int = Field(default=0, ge=0, le=64)
    """Number of GPUs that the test uses. With 0 it sees no GPU."""

    flaky: bool = False
    """Run the test up to three times until it passes."""


def seconds(attrs: TestAttrs) -> float:
    """Return the test's timeout in seconds."""
    return float(attrs.timeout or _SECONDS[attrs.size])


def resources(attrs: TestAttrs) -> Resources:
    return Resources(memory=_MEMORY[attrs.size], gpu=attrs.gpus)
