"""Join the weights outside several programs into one file, which contains equal weights once. Torch-free.

Inputs   ptd       the .ptd of each program
Outputs  ptd       a .ptd with the data of all programs
Params   programs  the names of the programs, in the order of `ptd`
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from modelbuild.step import Step, StepError
from modelbuild_rules.backend_api.steps.named_data import Named
from modelbuild_rules.program.steps.linking.data_file import read_data, write_data
from modelbuild_rules.program.steps.linking.segments import Blob, Contents


def run(step: Step) -> None:
    contents = Contents()
    found: dict[str, tuple[str, Named, Blob]] = {}
    for program, path in zip(step.params["programs"], step.inputs["ptd"], strict=True):
        for entry, data in read_data(path):
            blob = contents.first(data)
            first, known, same = found.setdefault(entry.key, (program, entry, blob))
            if same != blob or known.layout != entry.layout:
                raise StepError(
                    f"'{entry.key}' of {program} differs from that of {first}, and one file of weights has one tensor"
                    " of each name; expected programs whose weights of equal names are equal, or programs with"
                    " 'external_weights = false'"
                )
    with TemporaryDirectory() as work:
        entries = [(entry, blob) for _, entry, blob in found.values()]
        write_data(entries, contents, step.outputs["ptd"], Path(work))
