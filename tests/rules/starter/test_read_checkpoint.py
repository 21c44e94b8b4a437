"""Contents of checkpoints: state dicts, exported programs and TorchScript; refusal of everything else."""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch.export import Dim, export

from modelbuild.step import StepError
from modelbuild_rules.model.call import parse_call
from modelbuild_rules.starter.steps.read_checkpoint import read_checkpoint

STATE = {"head.weight": torch.ones(3, 4), "head.bias": torch.ones(3, dtype=torch.float16)}
TENSORS = [("head.weight", "float32", [3, 4]), ("head.bias", "float16", [3])]


def saved_program(path: Path, module: torch.nn.Module, *arguments: Any, **more: Any) -> Path:
    torch.export.save(export(module.eval(), *arguments, **more), path)
    return path


@pytest.mark.parametrize(
    "save",
    [
        lambda path: torch.save(STATE, path),
        lambda path: torch.save(STATE, path, _use_new_zipfile_serialization=False),
        lambda path: torch.save({"state_dict": STATE, "epoch": 3}, path),
    ],
)
def test_reads_the_tensors_of_a_state_dict(tmp_path: Path, save: Callable[[Path], None]) -> None:
    save(tmp_path / "w.pt")
    found = read_checkpoint(tmp_path / "w.pt")
    assert (found["kind"], found["tensors"]) == ("state dict", TENSORS)


def test_reads_the_tensors_of_a_safetensors_file(tmp_path: Path) -> None:
    save_file(STATE, tmp_path / "w.safetensors")
    assert sorted(read_checkpoint(tmp_path / "w.safetensors")["tensors"]) == sorted(TENSORS)


def test_reads_the_inputs_of_an_exported_program(tmp_path: Path) -> None:
    path = saved_program(tmp_path / "m.pt2", torch.nn.Linear(4, 3), (torch.ones(2, 4),))
    found = read_checkpoint(path)
    assert found["kind"] == "exported program"
    assert found["inputs"] == [{"name": "input", "shape": [2, 4], "dtype": "float32"}]
    assert (found["call"], found["dynamic"]) == (None, {})


class Several(torch.nn.Module):
    def forward(self, x: Any, ids: Any, *, options: Any, scale: float = 2.0) -> Any:
        return torch.cat([x, options["parts"][0]]) * scale + ids.sum()


def test_reads_the_call_and_the_dimensions_of_an_exported_program(tmp_path: Path) -> None:
    n = Dim("n", min=3, max=9)
    path = saved_program(
        tmp_path / "m.pt2",
        Several(),
        (torch.ones(4, 3), torch.ones(5, dtype=torch.int64)),
        {"options": {"parts": (torch.ones(8, 3),)}, "scale": 3.0},
        dynamic_shapes={
            "x": {0: n},
            "ids": {0: Dim("k")},
            "options": {"parts": ({0: 2 * n},)},
            "scale": None,
        },
    )
    found = read_checkpoint(path)
    x, ids, part = found["inputs"]
    assert [each["dtype"] for each in found["inputs"]] == ["float32", "int64", "float32"]
    size, length, double = str(x["shape"][0]), str(ids["shape"][0]), str(part["shape"][0])
    assert found["dynamic"][size] == {"min": 3, "max": 9}
    assert found["dynamic"][double] == f"2*{size}"
    assert isinstance(found["dynamic"][length], dict)
    assert found["call"] is not None
    assert parse_call(found["call"], [each["name"] for each in found["inputs"]])["kwargs"]["scale"] == {"constant": 3.0}


def test_knows_torchscript(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(torch.nn.Linear(4, 3)), tmp_path / "m.pt")
    assert read_checkpoint(tmp_path / "m.pt")["kind"] == "TorchScript"


class Code:
    """Makes a file when it is unpickled."""

    def __init__(self, made: str) -> None:
        self.made = made

    def __reduce__(self) -> Any:
        return os.mkdir, (self.made,)


@pytest.mark.parametrize("save", [torch.save, lambda value, path: path.write_bytes(pickle.dumps(value))])
def test_never_executes_code_in_a_pickle(tmp_path: Path, save: Callable[[Any, Path], None]) -> None:
    save({"head.weight": Code(str(tmp_path / "made"))}, tmp_path / "w.pt")
    with pytest.raises(StepError, match=r"w\.pt: cannot be read as weights only: it .*; expected a state dict"):
        read_checkpoint(tmp_path / "w.pt")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (torch.nn.Linear(1, 1), r"it contains code \(torch.nn.modules.linear.Linear\); expected a state dict, as"),
        ({"model": STATE}, r"expected a state dict, a table of tensors by name; its entry 'model' is one"),
        ([1, 2], r"expected a state dict, a table of tensors by name$"),
    ],
)
def test_refuses_another_pickle_with_a_hint(tmp_path: Path, value: Any, problem: str) -> None:
    torch.save(value, tmp_path / "w.pt")
    with pytest.raises(StepError, match=rf"w\.pt: .*{problem}"):
        read_checkpoint(tmp_path / "w.pt")
