"""Operators of torchvision in exported programs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch

from modelbuild_rules.operators.steps import torchvision_operators
from modelbuild_rules.operators.steps.sizes import upper


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


class Kept(torch.nn.Module):
    def forward(self, boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return torch.ops.torchvision.nms(boxes, scores, 0.5)


def test_the_result_of_nms_is_bounded_where_torchvision_is_imported() -> None:
    import torchvision  # noqa: F401 - it registers a shape without a bound

    torchvision_operators.register()
    program = torch.export.export(Kept(), (torch.rand(7, 4), torch.rand(7)))
    (kept,) = program.graph.output_node().args[0]
    assert upper(kept.meta["val"].shape[0]) == 7


def test_torchvision_is_not_imported_after_its_operators_were_registered() -> None:
    """It would abort the process."""
    code = (
        f"import importlib.util, sys\nfrom {torchvision_operators.__name__} import register\n"
        "register()\nassert importlib.util.find_spec('torchvision')  # as transformers asks\n"
        "try:\n    import torchvision\nexcept ImportError as error:\n    print(error)\n"
        "sys.meta_path.remove(importlib.machinery.PathFinder)\n"  # as a step whose key has no torchvision
        "assert importlib.util.find_spec('torchvision') is None"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("torchvision cannot be imported after a program with its operators was read")
