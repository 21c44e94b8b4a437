"""What a GPU times decides the library, and its tuning file makes the same one without a GPU. The GPU is a stand-in."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.xdist_group("cuda")


class Net(nn.Module):
    """Few candidates, one of them with a bias, and a kernel of several configurations."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(self.linear(x))


@pytest.fixture(scope="module")
def built(
    compile_small: Callable[..., Path], timed_driver: Path, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Path]:
    """Folders of a library timed on a GPU, and of one by the tuning file of that."""
    folder = tmp_path_factory.mktemp("tuned")
    driver = {"LD_LIBRARY_PATH": str(timed_driver)}
    timed = compile_small(Net(), (16, 64), folder / "gpu", {"build_on": "gpu", "gpu": "Fake"}, **driver)
    tuning = shutil.copy(timed / "compiled/tuning.json", folder / "net.tuning.json")
    return {"gpu": timed, "file": compile_small(Net(), (16, 64), folder / "file", {"tuning": str(tuning)})}


def choices(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "compiled/about.json").read_text()).get("choices", {})
    return found


@pytest.mark.slow
def test_a_tuning_file_makes_the_library_that_was_built_on_the_gpu(built: Mapping[str, Path]) -> None:
    gpu, file = ((built[name] / "library.so").read_bytes() for name in ("gpu", "file"))
    assert gpu == file


@pytest.mark.slow
def test_choices_are_counted(built: Mapping[str, Path]) -> None:
    entries = json.loads((built["gpu"] / "compiled/tuning.json").read_text())["choices"]
    assert entries
    assert choices(built["gpu"]) == {"timed": len(entries), "by_cost": []}
    assert choices(built["file"]) == {"tuned": len(entries), "by_cost": []}
    assert not (built["file"] / "compiled/tuning.json").exists()
