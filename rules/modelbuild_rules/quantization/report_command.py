"""`modelbuild quantize-report`: the error of each layer of a quantized model, and the layers to leave in floating
point."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from modelbuild.api import Command, Option
from modelbuild.errors import BuildError
from modelbuild_rules.method_names import FORWARD, qualified
from modelbuild_rules.wording import count

_HEAD = ("layer", "operators", "parameters", "error", "rest")
_METRIC_HEAD = (*_HEAD[:3], "metric", "rest")
_WHOLE = "(the model's own)"
VERSION = 2


# The output group of a method's report: `sensitivity`, or `encode.sensitivity`.
GROUP = "sensitivity"


def _group(options: Mapping[str, Any]) -> str:
    return qualified(options["method"] or FORWARD, GROUP)


def _show(label: str, files: Mapping[str, bytes], options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a report, or its JSON. Raises BuildError for another document."""
    method = options["method"]
    try:
        (content,) = files.values()
        report: Mapping[str, Any] = json.loads(content)
        if report["version"] != VERSION:
            raise ValueError(f"version {report['version']}")
        name = f"{label}, method {method}" if method else label
        shown = list(_lines(report, name, options["layers"]))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        problem = f"the report about its layers is malformed: {error}; expected version {VERSION}"
        raise BuildError(f"{label}: {problem}") from None
    if options["json"]:
        yield json.dumps({**report, "target": label, "method": method or FORWARD})
    else:
        yield from shown


quantize_report = Command(
    "quantize-report",
    help="Print the error of a quantized model by layer.",
    about="TARGET is a quantized_model. Each layer is quantized alone, by an action of its own. The last lines say"
    " which layers to leave in floating point.",
    group=_group,
    options=(
        Option("layers", "List the N most sensitive layers.", 20, "N"),
        Option("method", "The method, of a model with several.", metavar="NAME"),
    ),
    show=_show,
)


def _lines(report: Mapping[str, Any], label: str, most: int) -> Iterator[str]:
    """Yield the lines, with at most `most` layers, the most sensitive first."""
    layers, samples = report["layers"], count(report["samples"], "sample")
    output = report["output"]
    metric = report["outputs"][output]["metric"]
    if metric is None:
        yield f"{label}: error {_percent(report['error'])} of '{output}' over {samples}"
    else:
        of_float = f"in floating point {_number(metric['of_float'])}"
        yield f"{label}: {output} is {_number(metric['value'])} over {samples}, {of_float}"
    yield from _outputs(report)
    rows = [_HEAD if metric is None else _METRIC_HEAD, *(_row(each, output, metric) for each in layers[:most])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    for row in rows if most else ():
        left = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        yield "  " + "  ".join((*left, *right))
    if 0 < most < len(layers):
        yield f"  and {count(len(layers) - most, 'layer')} with less; --layers={len(layers)} lists all"
    yield from _advice(report)


def _outputs(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the errors of the outputs, if there are several, and warnings about those that are not comparable."""
    outputs = report["outputs"]
    if len(outputs) > 1:
        shown = ", ".join(
            f"'{name}' {_percent(each['error']) if each['metric'] is None else _number(each['metric']['value'])}"
            for name, each in outputs.items()
        )
        yield f"  outputs: {shown}"
    if outputs[report["output"]]["metric"] is not None:
        return
    selected = {
        each["after"]: [n for n, e in outputs.items() if e["after"] == each["after"]] for each in outputs.values()
    }
    for op, names in selected.items():
        if op is not None:
            yield (
                f"  warning: {_names(names)} after {op}, which selects or orders rows by their values: errors there"
                " compare different rows; 'metrics' of the quantized_model compare whole results"
            )
    if varying := [name for name, each in outputs.items() if each["varies"]]:
        yield f"  warning: {_names(varying)} of another length than in floating point: not comparable"


def _names(names: Sequence[str]) -> str:
    return f"{', '.join(map(repr, names))} {'is' if len(names) == 1 else 'are'}"


def _advice(report: Mapping[str, Any]) -> Iterator[str]:
    leave, layers = report["leave"], report["layers"]
    if report["error"] == 0:
        yield "no layers to leave: the error is 0"
        return
    if leave is None and report["fixed"]:
        yield f"no layers to leave: no table with 'exclude' quantizes {', '.join(map(repr, report['fixed']))}"
        return
    if leave is None:
        yield f"the error is spread over {count(len(layers), 'layer')}: a few in floating point would not halve it"
        return
    names = ", ".join(json.dumps(name) for name in leave["exclude"])
    share = leave["parameters"] / report["parameters"] if report["parameters"] else 0.0
    tables = f" in the table of {', '.join(leave['tables'])}" if leave["tables"] else ""
    yield f"leave in floating point: exclude = [{names}]{tables}"
    metric = report["outputs"][report["output"]]["metric"]
    if metric is None:
        subject, number = "the error", _percent(leave["error"])
    else:
        subject = report["output"]
        number = _number(leave["metric"])
    yield f"then {subject} is {number}, with {_percent(share)} of the parameters in floating point"


def _row(layer: Mapping[str, Any], output: str, metric: Mapping[str, Any] | None) -> tuple[str, ...]:
    operators = ", ".join(name.split(".")[1] for name in layer["operators"])
    if metric is None:
        error, rest = _percent(layer["error"]), _percent(layer["rest"])
    else:
        error, rest = _number(layer["metrics"][output]), _expected(metric, layer["rest"])
    return (layer["name"] or _WHOLE, operators, f"{layer['parameters']:,}", error, rest)


def _expected(metric: Mapping[str, Any], error: float | None) -> str:
    """Return the metric that an expected error stands for, on the side of the measured one."""
    value, of_float = metric["value"], metric["of_float"]
    if error is None or value is None or of_float is None:
        return _number(None)
    return _number(of_float + math.copysign(error, value - of_float))


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.4g}"


def _percent(error: float | None) -> str:
    return "not finite" if error is None else f"{100 * error:.2f} %"
