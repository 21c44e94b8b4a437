"""Export all models and lower them to .pte in each run, as a script without a build system does.

export_script.py FOLDER MODEL...        reads MODEL.py and MODEL.safetensors in FOLDER; writes MODEL.pte
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from safetensors.torch import load_file


def export(folder: Path, name: str) -> None:
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.Classifier().eval()
    model.load_state_dict(load_file(folder / f"{name}.safetensors"))
    program = torch.export.export(model, (torch.rand(1, 3, 64, 64) * 255,))
    lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    (folder / f"{name}.pte").write_bytes(lowered.to_executorch().buffer)


if __name__ == "__main__":
    for chosen in sys.argv[2:]:
        export(Path(sys.argv[1]), chosen)
