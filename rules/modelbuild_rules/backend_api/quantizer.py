"""The declaration of a quantizer, for rules and steps.

A quantizer is an extension of `quantization_recipe`, from any rule package. Its declaration names a step module that
makes torchao's quantizer (`modelbuild_rules.backend_api.steps.quantizing.Quantizing`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modelbuild.api import Attrs, Extension
from modelbuild_rules.backend_api.backend import DeviceFacts

Values = Mapping[str, Any]
"""Attributes of a table, by name: JSON values."""


@dataclass(frozen=True)
class Quantizer(Extension):
    """The declaration of a quantizer. Attributes that are in neither tuple are in no key.

    quantizing  import name of the module that makes torchao's quantizer
    backend     name of the backend that runs the quantized operators
    observe     attributes that decide where ranges are observed, and by which observer
    convert     other attributes that decide the quantized program
    """

    quantizing: str = ""
    backend: str = ""
    observe: tuple[str, ...] = ()
    convert: tuple[str, ...] = ()

    def contradiction(self, table: Attrs) -> tuple[str, str] | None:
        """Return the attribute to change and the problem if attributes contradict each other; else None."""
        return None

    def needs_data(self, attributes: Values) -> bool:
        """Return whether ranges of activations are observed on calibration data."""
        return False

    def problem(self, attributes: Values, stack: Sequence[tuple[str, Values]]) -> str:
        """Return why a stack (names of backends, with their attributes) does not fit the quantized operators; '' if it
        does."""
        if self.backend and self.backend not in [name for name, _ in stack]:
            return f"its recipe is for {self.backend}, which is not in the stack"
        return ""

    def device_problem(self, attributes: Values, facts: DeviceFacts) -> str:
        """Return why a device can't run the quantized operators, with what is expected; '' if it can."""
        return ""
