"""Operators of torchvision in exported programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def test_an_import_in_forward_leaves_no_operator(export: Callable[..., Any]) -> None:
    """torchvision calls this operator when it is imported."""
    made = export(
        "import torchvision\nclass Net(nn.Module):\n    def forward(self, x):\n"
        "        torch.ops.torchvision._cuda_version()\n        return x + 1"
    )
    called = [node.target for node in made.program().graph.nodes if node.op == "call_function"]
    assert called == [torch.ops.aten.add.Tensor]


def test_an_operator_without_a_kernel_is_refused(refusal: Callable[..., str]) -> None:
    text = refusal(
        "import torchvision\nclass Net(nn.Module):\n    def forward(self, x):\n"
        "        return torchvision.ops.roi_pool(x.view(1, 1, *x.shape), [x.new_ones(1, 4)], 1)"
    )
    assert text.startswith("m/net.py:7: ")
    assert "no kernel computes the operator torchvision.roi_pool.default; expected one of torchvision.deform" in text
    assert "or a kernel_library that computes it" in text
