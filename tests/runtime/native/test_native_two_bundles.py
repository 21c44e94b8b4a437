"""Programs of two bundles with other kernels, in one process of Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.workspace_builder import Workspace

NET = """
import torch
from torch import nn


class Complement(nn.Module):
    def forward(self, x):
        return torch.erfc(x)


class Bessel(nn.Module):
    def forward(self, x):
        return torch.special.i0(x) + torch.lgamma(x)
"""
BUILD = """
[[backend_stack]]
name = "stack"
backends = ["portable"]

[[matrix]]
name = "nets"
net = ["Complement", "Bessel"]

[[torch_model]]
name = "{net}_model"
matrix = "nets"
entry = "net.py:{net}"
inputs = [{ name = "x", shape = [4], dtype = "float32" }]

[[pte_program]]
name = "{net}"
matrix = "nets"
model = ":{net}_model"
stack = ":stack"

[[runtime_bundle]]
name = "{net}_bundle"
matrix = "nets"
program = ":{net}"
"""
RUN = """
import sys
import numpy as np, torch, modelbuild_runtime

x = np.array([0.5, 1, 2, 3], np.float32)
given = torch.from_numpy(x)
wanted = [torch.erfc(given), torch.special.i0(given) + torch.lgamma(given)]
for bundle, expected in [*zip(sys.argv[1:], wanted), (sys.argv[1], wanted[0])]:
    (found,) = modelbuild_runtime.load(bundle).run([x]).values()
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5)
"""

pytestmark = pytest.mark.xdist_group("bundles")


def test_each_finds_its_kernels(workspace: Workspace) -> None:
    """ExecuTorch's library, and the kernels that it knows, are those of the first bundle."""
    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": BUILD, "net.py": NET})
    workspace.build("//:Complement_bundle", "//:Bessel_bundle")
    out = Path(workspace.root) / "modelbuild-out/default"
    bundles = [out / f"{net}_bundle/{net}_bundle" for net in ("Complement", "Bessel")]
    done = subprocess.run([sys.executable, "-c", RUN, *bundles], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
