"""Quantize a program by a recipe, and measure the error of its outputs on samples.

Inputs   program, weights   trees, as model/steps/exported/program.py writes them
         modules            JSON: Modules of quantization/documents.py
         signature          JSON: Signature of model/documents.py
         sample.<name>, samples.archives or samples.generated: steps/samples.py; or, without a dataset,
         examples           safetensors: example inputs by position
         metric_srcs        Python files of the metrics
Params   RecipeParams of quantization/documents.py
         metrics            [ResultMetricParams] of model/documents.py
Outputs  measured           JSON: Measured of quantization/documents.py
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file

from modelbuild.step import Step, StepError
from modelbuild_rules.model.steps.eager.entry import first_line
from modelbuild_rules.model.steps.eager.result_metric import import_metrics
from modelbuild_rules.model.steps.eager.tensors import to_tensor
from modelbuild_rules.quantization.steps.linears import quantize_linears
from modelbuild_rules.quantization.steps.metrics import Metrics, error_of
from modelbuild_rules.quantization.steps.prepared import prepare, unlifted
from modelbuild_rules.quantization.steps.samples import count_samples, read_samples, signature_ports
from modelbuild_rules.quantization.steps.selections import Selections, Tapped, named
from modelbuild_runtime.files.signature import read_signatures

if TYPE_CHECKING:
    from modelbuild_rules.quantization.documents import Measured


@dataclass
class _Sums:
    """The squares of an output's differences, and of its values in floating point, over samples."""

    difference: float = 0.0
    value: float = 0.0
    varies: bool = False

    def add(self, expected: torch.Tensor, found: torch.Tensor) -> None:
        if expected.shape != found.shape:  # such as the boxes that a threshold lets through
            self.difference = math.inf
            self.varies = True
        elif expected.is_floating_point():
            finite = expected.isfinite()
            one, other = expected.double()[finite], found.double()[finite]
            self.difference += float(((one - other) ** 2).sum().nan_to_num(nan=math.inf, posinf=math.inf))
            self.value += float((one**2).sum())
        else:
            self.difference += int((expected != found).sum())
            self.value += expected.numel()

    def error(self) -> float:
        if not self.difference:
            return 0.0
        return math.sqrt(self.difference / self.value) if self.value else math.inf


@torch.no_grad()
def run(step: Step) -> None:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

    step.progress("reading the program")
    quantizers: Any = step.params["quantizers"]
    import_metrics(step.root, step.params.get("metrics", ()))
    given, before = unlifted(step, quantizers), unlifted(step, ())
    total = count_samples(step) if "examples" not in step.inputs else 1
    selections = Selections.of(before.module)
    expected = [
        _outputs(
            before.module, before.reset, step, sample, f"sample {number} of {total}, in floating point", selections
        )
        for number, sample in enumerate(_samples(step), 1)
    ]
    prepared = prepare(given, quantizers)
    for number, sample in enumerate(_samples(step) if prepared is not None else (), 1):
        _outputs(prepared, given.reset, step, sample, f"sample {number} of {total}, observed", None)
    step.progress("quantizing")
    module = quantize_linears(given.module if prepared is None else convert_pt2e(prepared), quantizers)
    (method,) = read_signatures(step.input("signature")).values()
    names = [each.name for each in method.outputs]
    if len(names) != len(expected[0][0]):
        names = [str(number) for number in range(len(expected[0][0]))]
    after = {name: op for name, op in zip(names, selections.outputs, strict=False) if op}
    sums = {name: _Sums() for name in (*names, *expected[0][1])}
    metrics = Metrics(step, names)
    for number, (sample, right) in enumerate(zip(_samples(step), expected, strict=True), 1):
        found = _outputs(module, given.reset, step, sample, f"sample {number} of {total}, quantized", selections)
        for name, one, other in zip(names, right[0], found[0], strict=True):
            sums[name].add(one, other)
        for name, one in right[1].items():
            sums[name].add(one, found[1][name])
        metrics.add(found[0], right[0])
    means = metrics.means()
    errors = {name: each.error() for name, each in sums.items()}
    errors |= {name: error_of(each) for name, each in means.items()}
    comparable = [*means][:1] or [name for name in sums if name not in after] or [*sums]
    worst = max(comparable, key=lambda name: errors[name])
    measured: Measured = {
        "error": _number(errors[worst]),
        "output": worst,
        "outputs": {name: _number(error) for name, error in errors.items()},
        "metrics": means,
        "after": after,
        "varies": [name for name, each in sums.items() if each.varies],
        "samples": total,
    }
    step.outputs["measured"].write_text(json.dumps(measured, indent=1) + "\n")


def _number(error: float) -> float | None:
    return float(f"{error:.6g}") if math.isfinite(error) else None


def _samples(step: Step) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield the inputs of the program of each sample, in order."""
    if "examples" in step.inputs:
        read = load_file(step.input("examples"))
        yield tuple(read[str(number)] for number in range(len(read)))
        return
    ports = signature_ports(step.input("signature"))
    for sample in read_samples(step, ports):
        yield tuple(to_tensor(sample[port.name], port) for port in ports)


def _outputs(
    module: torch.nn.Module,
    reset: Callable[[torch.nn.Module], None],
    step: Step,
    sample: tuple[torch.Tensor, ...],
    shown: str,
    selections: Selections | None,
) -> tuple[list[torch.Tensor], Mapping[str, torch.Tensor]]:
    """Return the tensors among a module's results, and the tensors before its first selections by name."""
    step.progress(shown)
    reset(module)
    try:
        if selections is None or not selections.first:
            return list(_tensors(module(*sample))), {}
        assert isinstance(module, torch.fx.GraphModule)
        tapped = Tapped(module, selections.first)
        results = list(_tensors(tapped.run(*sample)))
        return results, dict(named(tapped.kept))
    except (IndexError, RuntimeError, ValueError) as error:
        raise StepError(f"{shown}: the model fails on it: {first_line(error)}") from error


def _tensors(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, (torch.Tensor, bool, int, float)):
        yield torch.as_tensor(value).clone()
    elif isinstance(value, (tuple, list, Mapping)):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors(each)
