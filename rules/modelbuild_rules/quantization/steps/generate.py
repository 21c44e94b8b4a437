"""Run a function that yields samples, and write each to a file.

Inputs   srcs, data   at their workspace paths
Params   GeneratedParams of quantization/documents.py
Outputs  samples      tree: 0.safetensors, 1.safetensors, ... with arrays by name
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from safetensors.torch import save_file

from modelbuild.step import Step, StepError
from modelbuild_rules.model.steps.eager.entry import load_function, seed_generators

if TYPE_CHECKING:
    from modelbuild_rules.quantization.documents import GeneratedParams


def run(step: Step) -> None:
    params = cast("GeneratedParams", step.params)
    seed_generators(params["seed"])
    entry, most = params["entry"], params["max_samples"]
    number = 0
    for number, sample in enumerate(islice(_samples(step, entry, params["kwargs"]), most), 1):
        step.progress("sample", number, most)
        save_file(_arrays(entry, number, sample), step.outputs["samples"] / f"{number - 1}.safetensors")
    if number == 0:
        raise StepError(f"{entry} yields no sample; expected one or more")


def _samples(step: Step, entry: str, kwargs: Mapping[str, Any]) -> Iterable[Any]:
    function = load_function(step.root, entry)
    if not callable(function):
        raise StepError(f"{entry} is a {type(function).__name__}; expected a function that yields samples")
    try:
        inspect.signature(function).bind(**kwargs)
    except TypeError as error:
        given = f"the kwargs {', '.join(kwargs)}" if kwargs else "no kwargs"
        raise StepError(f"{entry}, called with {given}: {error}") from error
    found = function(**kwargs)
    if not isinstance(found, Iterable) or isinstance(found, Mapping):
        raise StepError(f"{entry} returns a {type(found).__name__}; expected a function that yields samples")
    return found


def _arrays(entry: str, number: int, sample: Any) -> dict[str, torch.Tensor]:
    """Return a sample's arrays as tensors. Raises StepError for a sample of another kind."""
    if not isinstance(sample, Mapping) or not sample or not all(isinstance(name, str) for name in sample):
        raise StepError(
            f"sample {number} of {entry} is a {type(sample).__name__}; expected a table of arrays, with names of inputs"
        )
    return {name: _tensor(f"'{name}' of sample {number} of {entry}", value) for name, value in sample.items()}


def _tensor(where: str, value: Any) -> torch.Tensor:
    try:
        # Copies: safetensors refuses tensors that share memory.
        found = value.detach().clone() if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))
    except (TypeError, ValueError) as error:
        raise StepError(f"{where} is a {type(value).__name__}; expected an array of numbers: {error}") from error
    return found.contiguous()
