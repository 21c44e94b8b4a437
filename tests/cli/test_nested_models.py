"""Models with nested inputs, dependent sizes and nested results, built and run through the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.workspace_builder import Workspace

NET = """
import dataclasses
import torch
from torch import nn


@dataclasses.dataclass
class Result:
    logits: torch.Tensor
    states: list
    loss: object = None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.LazyLinear(2)

    def forward(self, batch, *others, scale, mask=None):
        x, halves = batch["x"], batch["more"][0]
        y = self.linear(x) * scale + mask
        return Result(y, [halves.view(-1, 2).sum(1), others[0] + 1])


def run_once(module, *args, **kwargs):
    module(*args, **kwargs)
"""
BUILD = """
[[torch_model]]
name = "model"
entry = "net.py:Net"
prepare = "net.py:run_once"
inputs = [
    { name = "mask", shape = ["n", 2], dtype = "float32" },
    { name = "x", shape = ["n", 3], dtype = "float32" },
    { name = "pairs", shape = ["all"], dtype = "float32" },
    { name = "other", shape = [2], dtype = "float32" },
]
call = "{'x': x, 'more': [pairs]}, other, scale=2.0, mask=mask"
dynamic = { n = { min = 1, max = 6 }, half = { min = 1, max = 6 }, all = "2*half" }

[[backend_stack]]
name = "stack"
backends = ["xnnpack", "portable"]

[[pte_program]]
name = "program"
model = ":model"
stack = ":stack"

[[pte_test]]
name = "test"
program = ":program"
model = ":model"
cases = [{ name = "drawn", generator = { seed = 1, count = 2 } }]
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    workspace = Workspace(
        tmp_path_factory.mktemp("nested"), {"MODELBUILD.toml": "", "BUILD.toml": BUILD, "net.py": NET}
    )
    arrays = {"mask": (4, 2), "x": (4, 3), "pairs": (10,), "odd": (9,), "other": (2,)}
    for name, shape in arrays.items():
        np.save(workspace.root / f"{name}.npy", np.arange(np.prod(shape), dtype=np.float32).reshape(shape))
    ended = workspace.run("test", "//:test")
    assert ended.code == 0, ended.err
    workspace.build("//:program")
    return workspace


def run(workspace: Workspace, **files: str) -> tuple[int, str]:
    inputs = [f"--input={name}={files.get(name, name)}.npy" for name in ("mask", "x", "pairs", "other")]
    ended = workspace.run("run", "//:program", *inputs, "--output-dir=out", "--repeat=1", "--warmup=0")
    return ended.code, ended.err


def test_a_program_takes_the_declared_inputs_and_names_its_outputs_by_their_places(built: Workspace) -> None:
    assert run(built)[0] == 0
    outputs = {path.stem for path in (built.root / "out").iterdir()}
    assert outputs == {"logits", "states.0", "states.1"}
    pairs = np.load(built.root / "pairs.npy")
    np.testing.assert_array_equal(np.load(built.root / "out/states.0.npy"), pairs.reshape(-1, 2).sum(1))
    np.testing.assert_array_equal(np.load(built.root / "out/states.1.npy"), [1, 2])


def test_sizes_that_do_not_agree_are_refused(built: Workspace) -> None:
    code, text = run(built, pairs="odd")
    assert code == 2, text
    assert "dimension all is 9; expected 2*half" in text


def test_the_signature_has_dependent_sizes(built: Workspace) -> None:
    signature = json.loads((built.root / "modelbuild-out/default/program/signature.json").read_text())
    assert signature["methods"]["forward"]["inputs"][2]["dynamic"] == {
        "all": {"min": 2, "max": 12, "terms": {"half": 2}, "plus": 0},
        "half": {"min": 1, "max": 6},
    }
