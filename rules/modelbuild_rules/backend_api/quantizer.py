"""Declarations of quantizers.

A quantizer is an extension of `quantization_recipe`, from any rule package. Its declaration names a step module that
makes torchao's quantizer (`modelbuild_rules.backend_api.steps.quantizing.Quantizing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from modelbuild.api import Attrs, Extension
from modelbuild_rules.backend_api.backend import DeviceFacts, Values
from modelbuild_rules.backend_api.decides import check_decides, deciding


@dataclass(frozen=True)
class Quantizer(Extension):
    """The declaration of a quantizer. Each attribute of its table states its effect: `Decides("calibrate")` on the
    observed places, the observer and the quantized program; `Decides("convert")` on the quantized program alone.

    quantizing  import name of the module with `QUANTIZING`
    backend     the backend that runs the quantized operators; '' for any

    Raises TypeError for an attribute that does not state its effect.
    """

    quantizing: str = ""
    backend: str = ""

    def __post_init__(self) -> None:
        check_decides(self.attrs, ("calibrate", "convert"))

    def attributes(self, given: Values, calibrates: bool) -> dict[str, Any]:
        """Return the attributes of a calibration, or all for a conversion."""
        steps = ("calibrate",) if calibrates else ("calibrate", "convert")
        return {name: given[name] for step in steps for name in deciding(self.attrs, step)}

    def contradiction(self, table: Attrs) -> tuple[str, str] | None:
        """Return the attribute to change and the problem if attributes contradict each other."""
        return None

    def needs_data(self, attributes: Values) -> bool:
        """Return whether ranges of activations are observed on calibration data."""
        return False

    def problem(self, attributes: Values, stack: Sequence[tuple[str, Values]]) -> str:
        """Return the reason why a stack (backends' names and attributes) does not fit the quantized operators; '' if it
        fits."""
        if self.backend and self.backend not in [name for name, _ in stack]:
            return f"its recipe is for {self.backend}, which is not in the stack"
        return ""

    def device_problem(self, attributes: Values, facts: DeviceFacts) -> str:
        """Return the reason why a device cannot run the quantized operators, and the expected device; '' if it can."""
        return ""
