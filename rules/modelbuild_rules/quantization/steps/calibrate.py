"""Run a program on calibration data, and write the observed ranges of its activations.

Inputs   program, weights   trees, as model/steps/exported/program.py writes them
         modules            JSON: Modules of quantization/documents.py
         signature          JSON: Signature of model/documents.py
         sample.<name>, samples.archives or samples.generated: steps/samples.py
Params   RecipeParams of quantization/documents.py, with the attributes that decide the calibration
Outputs  observed           safetensors: the state of each observer, as NAME.BUFFER
"""

from __future__ import annotations

import torch

from modelbuild.step import Step, StepError
from modelbuild_rules.model.steps.eager.entry import first_line
from modelbuild_rules.model.steps.eager.tensors import to_tensor
from modelbuild_rules.quantization.steps.prepared import prepare, save_ranges, unlifted
from modelbuild_rules.quantization.steps.samples import count_samples, read_samples, signature_ports


@torch.no_grad()
def run(step: Step) -> None:
    step.progress("reading the program")
    given = unlifted(step, step.params["quantizers"])
    prepared = prepare(given, step.params["quantizers"])
    assert prepared is not None, "a recipe without observers is not calibrated"
    ports = signature_ports(step.input("signature"))
    total = count_samples(step)
    for number, sample in enumerate(read_samples(step, ports), 1):
        step.progress("sample", number, total)
        given.reset(prepared)
        try:
            prepared(*(to_tensor(sample[port.name], port) for port in ports))
        except (IndexError, RuntimeError, ValueError) as error:
            raise StepError(f"sample {number}: the model fails on it: {first_line(error)}") from error
    save_ranges(prepared, given.mutable, step.outputs["observed"])
