"""The sensitivity report of a quantized model as text: the error of each layer, and the layers to leave in floating
point."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from modelbuild.errors import BuildError
from modelbuild.wording import count

_HEAD = ("layer", "operators", "parameters", "error", "rest")
_WHOLE = "(the model's own)"
VERSION = 1


def read_sensitivity(label: str, contents: Sequence[bytes]) -> Mapping[str, Any]:
    """Return a report as the action wrote it. Raises BuildError for another document."""
    try:
        (content,) = contents
        report: Mapping[str, Any] = json.loads(content)
        if report["version"] != VERSION:
            raise ValueError(f"version {report['version']}")
        list(lines(report, label, 0))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise BuildError(f"{label}: the report about its layers is malformed: {error}; expected version 1") from None
    return report


def lines(report: Mapping[str, Any], label: str, most: int) -> Iterator[str]:
    """Yield the lines, with the `most` most sensitive layers."""
    layers, samples = report["layers"], count(report["samples"], "sample")
    yield f"{label}: error {_percent(report['error'])} of '{report['output']}' over {samples}"
    rows = [_HEAD, *(_row(each) for each in layers[:most])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    for row in rows if most else ():
        left = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        yield "  " + "  ".join((*left, *right))
    if 0 < most < len(layers):
        yield f"  and {count(len(layers) - most, 'layer')} with less; --layers={len(layers)} lists all"
    yield from _advice(report)


def _advice(report: Mapping[str, Any]) -> Iterator[str]:
    leave, layers = report["leave"], report["layers"]
    if leave is None:
        yield f"the error is spread over {count(len(layers), 'layer')}: a few in floating point would not halve it"
        return
    names = ", ".join(json.dumps(name) for name in leave["exclude"])
    share = leave["parameters"] / report["parameters"] if report["parameters"] else 0.0
    yield f"leave in floating point: exclude = [{names}]"
    yield f"then the error is {_percent(leave['error'])}, with {_percent(share)} of the parameters in floating point"


def _row(layer: Mapping[str, Any]) -> tuple[str, ...]:
    operators = ", ".join(name.split(".")[1] for name in layer["operators"])
    error, rest = _percent(layer["error"]), _percent(layer["rest"])
    return (layer["name"] or _WHOLE, operators, f"{layer['parameters']:,}", error, rest)


def _percent(error: float | None) -> str:
    return "not finite" if error is None else f"{100 * error:.2f} %"
