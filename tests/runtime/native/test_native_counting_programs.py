"""Models that count, select or add up by values, through the command line: built, inspected, tested and run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.workspace_builder import Workspace

NET = """
import torch
from torch import nn


class Votes(nn.Module):  # mode, index_reduce
    def forward(self, x):
        votes = (x * 4).int().mode(0).values
        return votes, torch.zeros(3, 8).index_reduce(0, torch.tensor([0, 2, 2, 0, 1, 2]), x, "mean", include_self=False)


class Histograms(nn.Module):  # histc, bincount
    def forward(self, x):
        counts = torch.bincount((x * 4 + 8).long().flatten().clamp(0, 30), minlength=9)
        torch._check(counts.shape[0] <= 31)
        return torch.histc(x, 5, -1, 1), counts


class Distinct(nn.Module):  # _unique2, unique_dim, unique_consecutive
    def forward(self, x):
        x = (x * 2).int()
        values, places, counts = x.unique(return_inverse=True, return_counts=True)
        return values, places, counts, (x > 0).unique(dim=0).sum(1), x.flatten().unique_consecutive()


class Words(nn.Module):  # embedding_bag, searchsorted and bucketize of numbers
    def __init__(self):
        super().__init__()
        self.sum, self.largest = (nn.EmbeddingBag(9, 4, mode=mode, padding_idx=0) for mode in ("mean", "max"))

    def forward(self, x):
        words, edges = (x * 4 + 4).long().clamp(0, 8), x.flatten().sort().values
        return self.sum(words), self.largest(words), torch.searchsorted(edges, 0), torch.bucketize(0.5, edges)
"""
MODEL = """
[[torch_model]]
name = "{0}_model"
entry = "net.py:{1}"
inputs = [{{ name = "x", shape = [6, 8], dtype = "float32", range = [-1, 1] }}]

[[pte_program]]
name = "{0}"
model = ":{0}_model"
stack = ":stack"

[[pte_test]]
name = "{0}_test"
program = ":{0}"
model = ":{0}_model"
runtime = {{ archive = "runtime.tar" }}
cases = [{{ name = "drawn", generator = {{ seed = 3, count = 2 }} }}]
"""
STACK = """
[[backend_stack]]
name = "stack"
backends = ["xnnpack", "portable"]
"""
KERNELS = {
    "Votes": "aten::mode.values, aten::scatter_reduce.two_out",
    "Histograms": "aten::bincount.out, aten::histc.out",
    "Distinct": "aten::_unique2.out, aten::unique_consecutive.out, aten::unique_dim.out",
    "Words": "aten::_embedding_bag_forward_only.out, aten::bucketize.Tensor_out, aten::searchsorted.Tensor_out,"
    " aten::sort.values",
}

pytestmark = pytest.mark.xdist_group("bundles")


@pytest.fixture(scope="module")
def made(repository: Path, native: Path, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Return a workspace with the built programs."""
    build = STACK + "".join(MODEL.format(name.lower(), name) for name in KERNELS)
    workspace = Workspace(
        tmp_path_factory.mktemp("counting"), {"MODELBUILD.toml": "", "BUILD.toml": build, "net.py": NET}
    )
    pack = [sys.executable, repository / "runtime/archive.py", "--build", native, "--out"]
    subprocess.run([*pack, workspace.root / "runtime.tar"], check=True, stdout=subprocess.DEVNULL)
    workspace.build("//...")
    return workspace


def test_the_programs_compute_the_values_of_eager_mode(made: Workspace) -> None:
    tests = made.test("//...", code=0)
    assert {name: each["status"] for name, each in tests.items()} == {
        f"//:{name.lower()}_test": "passed" for name in KERNELS
    }, json.dumps(tests)


@pytest.mark.parametrize("name", KERNELS)
def test_inspect_prints_the_kernels(made: Workspace, name: str) -> None:
    line = f"needs the kernel library modelbuild_kernels for {KERNELS[name]}"
    assert line in made.run("inspect", f"//:{name.lower()}").out.splitlines()


def test_a_size_may_depend_on_values_from_run_to_run(made: Workspace) -> None:
    found = set()
    for seed in range(3):
        np.save(made.root / "x.npy", np.random.default_rng(seed).normal(size=(6, 8)).astype(np.float32))
        command = ("run", "//:distinct", "--input", "x=x.npy", "--output-dir", "out", "--json")
        done = made.run(*command)
        assert done.code == 0, done.err
        found.add(tuple(tuple(each["shape"]) for each in json.loads(done.out)["outputs"]))
    assert len(found) > 1
