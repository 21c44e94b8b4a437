"""Rank the layers of a program by the error when only one layer is quantized, and choose layers to leave in floating
point.

Inputs   layers      JSON: Layers of quantization/documents.py
         whole       JSON: Measured of quantization/documents.py, of the recipe
         alone       the same, of each layer alone, in the order of `layers`
Params   tables      [Table] of quantization/documents.py: the recipe's
Outputs  report      JSON: Sensitivity of quantization/documents.py, with an error of None in `leave`

or, to complete a report:

Inputs   report      a report without this error
         without     JSON: Measured of quantization/documents.py, without the layers to leave
Outputs  report      the same report, with the error and the metric in `leave`
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from modelbuild.step import Step
from modelbuild_rules.backend_api.steps.quantizing import is_inside

if TYPE_CHECKING:
    from modelbuild_rules.quantization.documents import (
        Layer,
        Layers,
        LeftInFloat,
        Measured,
        SensitiveLayer,
        Sensitivity,
        Table,
    )

VERSION = 2
_HALF = 0.25  # of the sum of squares
_FEW = 0.25  # of the layers


def run(step: Step) -> None:
    report: Sensitivity
    if "without" in step.inputs:
        report = json.loads(step.input("report").read_bytes())
        without: Measured = json.loads(step.input("without").read_bytes())
        assert report["leave"] is not None
        report["leave"]["error"] = without["error"]
        if report["output"] in without["metrics"]:
            report["leave"]["metric"] = without["metrics"][report["output"]]["value"]
    else:
        layers: Layers = json.loads(step.input("layers").read_bytes())
        whole: Measured = json.loads(step.input("whole").read_bytes())
        report = _ranked(
            layers, whole, [json.loads(path.read_bytes()) for path in step.inputs["alone"]], step.params["tables"]
        )
    step.outputs["report"].write_text(json.dumps(report, indent=1) + "\n")


def _ranked(layers: Layers, whole: Measured, alone: Sequence[Measured], tables: Sequence[Table]) -> Sensitivity:
    pairs = sorted(zip(layers, alone, strict=True), key=lambda pair: -_error(pair[1]))
    ranked: list[SensitiveLayer] = [
        {
            "name": layer["name"],
            "operators": layer["operators"],
            "parameters": layer["parameters"],
            "error": measured["error"],
            "output": measured["output"],
            "rest": _number(_together(each for _, each in pairs[place:])),
            "outputs": measured["outputs"],
            "metrics": {name: means["value"] for name, means in measured["metrics"].items()},
        }
        for place, (layer, measured) in enumerate(pairs, 1)
    ]
    return {
        "version": VERSION,
        "samples": whole["samples"],
        "error": whole["error"],
        "output": whole["output"],
        "parameters": sum(layer["parameters"] for layer in layers),
        "layers": ranked,
        "leave": _leave(pairs, tables),
        "fixed": [layer["name"] for layer in layers if not _excludable(layer, tables)],
        "outputs": {
            name: {
                "error": error,
                "after": whole["after"].get(name),
                "varies": name in whole["varies"],
                "metric": whole["metrics"].get(name),
            }
            for name, error in whole["outputs"].items()
        },
    }


def _excludable(layer: Layer, tables: Sequence[Table]) -> bool:
    return all(tables[number]["excludes"] for number in layer["tables"])


def _leave(pairs: Sequence[tuple[Layer, Measured]], tables: Sequence[Table]) -> LeftInFloat | None:
    """Return the fewest layers without which the expected error is at most half; None if they are more than a quarter
    of the layers. A module with other layers inside stays, because leaving it would leave its layers."""
    everything = _together(each for _, each in pairs)
    left: list[Layer] = []
    rest = [each for _, each in pairs]
    names = [layer["name"] for layer, _ in pairs]
    for layer, measured in pairs:
        if _together(rest) ** 2 <= _HALF * everything**2 and math.isfinite(_together(rest)):
            break
        around = any(is_inside(name, [layer["name"]]) for name in names if name != layer["name"])
        if not layer["name"] or around or not _excludable(layer, tables):
            continue
        left.append(layer)
        rest.remove(measured)
    if not left or len(left) > max(1, _FEW * len(pairs)) or len(left) == len(pairs):
        return None
    kinds = [tables[number]["kind"] for layer in left for number in layer["tables"]]
    return {
        "exclude": [layer["name"] for layer in left],
        "error": None,
        "metric": None,
        "parameters": sum(layer["parameters"] for layer in left),
        "tables": [*dict.fromkeys(kinds)] if len(tables) > 1 else [],
    }


def _error(measured: Measured) -> float:
    return math.inf if measured["error"] is None else measured["error"]


def _together(measured: Iterable[Measured]) -> float:
    return math.sqrt(sum(_error(each) ** 2 for each in measured))


def _number(error: float) -> float | None:
    return float(f"{error:.6g}") if math.isfinite(error) else None
