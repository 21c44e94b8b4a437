"""What all rules of tests share: attributes, and what the engine is told of a test."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from modelbuild.api import Attrs, Resources

# Seconds and bytes, by size.
_SECONDS = {"small": 60, "medium": 300, "large": 900, "enormous": 3600}
_MEMORY = {"small": 1 << 30, "medium": 2 << 30, "large": 4 << 30, "enormous": 8 << 30}


class TestAttrs(Attrs):
    """Of every test."""

    size: Literal["small", "medium", "large", "enormous"] = "medium"
    """How much the test may take: a minute and 1 GiB, 5 minutes and 2 GiB, 15 minutes and 4 GiB, an hour and 8 GiB."""

    timeout: int | None = Field(default=None, ge=1, le=1_000_000)
    """Seconds after which the test has failed, in place of the size's."""

    gpus: int = Field(default=0, ge=0, le=64)
    """GPUs that the test uses. A test that asks for none sees none."""

    flaky: bool = False
    """Whether the test may be tried up to three times."""


def seconds(attrs: TestAttrs) -> int:
    """The timeout."""
    return attrs.timeout or _SECONDS[attrs.size]


def resources(attrs: TestAttrs) -> Resources:
    return Resources(memory=_MEMORY[attrs.size], gpu=attrs.gpus)
