"""Put a program's inputs, given by name or in order, in the program's order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from modelbuild_runtime.describe import Port
from modelbuild_runtime.errors import InputError, did_you_mean

Inputs: TypeAlias = Mapping[str, Any] | Sequence[Any]


def in_order(ports: tuple[Port, ...], inputs: Inputs) -> list[Any]:
    """Return a value for each input: the given one, or the program's own constant.

    Raises InputError for an unknown or missing input, or a wrong number of inputs.
    """
    given = inputs if isinstance(inputs, Mapping) else _by_name(ports, inputs)
    names = [port.name for port in ports]
    for name in given:
        if name not in names:
            raise InputError(f"no input '{name}'; inputs: {', '.join(names) or 'none'}{did_you_mean(name, names)}")
    missing = [port for port in ports if port.name not in given and port.constant is None and port.kind != "none"]
    if missing:
        raise InputError(f"missing input {missing[0]}")
    return [given.get(port.name, port.constant) for port in ports]


def check_constant(port: Port, value: Any) -> None:
    """Raise InputError if an input that is not a tensor has another value than the program was made with."""
    if port.constant is not None and value != port.constant:
        raise InputError(f"input {port}: the program accepts only that value, got {value!r}")


def _by_name(ports: tuple[Port, ...], inputs: Sequence[Any]) -> dict[str, Any]:
    wanted = [port for port in ports if port.kind == "tensor"] if len(inputs) != len(ports) else list(ports)
    if len(inputs) != len(wanted):
        expected = ", ".join(str(port) for port in wanted) or "none"
        raise InputError(f"{len(inputs)} inputs given, {len(wanted)} expected: {expected}")
    return {port.name: value for port, value in zip(wanted, inputs, strict=True)}
