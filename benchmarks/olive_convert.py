"""Convert the models of export_script.py with Olive, which keeps results, to ONNX: Olive writes no .pte.

olive_convert.py FOLDER MODEL...        the output is FOLDER/olive/MODEL/model.onnx, the cache FOLDER/olive/cache
"""

from __future__ import annotations

import sys
from pathlib import Path

from olive.workflows import run

# Olive's key covers the weights and one script, so the script contains the model's source.
LOADER = """

def load(model_path):
    from safetensors.torch import load_file

    model = Classifier().eval()
    model.load_state_dict(load_file(model_path))
    return model
"""


def convert(folder: Path, name: str) -> None:
    script = folder / f"olive/{name}.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text((folder / f"{name}.py").read_text() + LOADER)
    inputs = {"input_names": ["image"], "input_shapes": [[1, 3, 64, 64]], "output_names": ["scores"]}
    model = {"type": "PyTorchModel", "model_path": str(folder / f"{name}.safetensors"), "io_config": inputs}
    config = {
        "input_model": {**model, "model_loader": "load", "model_script": str(script)},
        "passes": {"conversion": {"type": "OnnxConversion"}},
        "cache_dir": str(folder / "olive/cache"),
        "output_dir": str(folder / f"olive/{name}"),
    }
    run(config)


if __name__ == "__main__":
    for chosen in sys.argv[2:]:
        convert(Path(sys.argv[1]), chosen)
