"""Models with weights of 8 and 4 bits, compiled for a GPU and run without one: results of the quantized model in eager
mode, from weights that stay small."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from modelbuild_rules.backend_api.steps.named_data import read_named
from tests.rules.backends.cuda.conftest import CUDA, PORTABLE, Built, compile_partition, lower
from tests.rules.quantization.conftest import Quantized, run_quantization

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive, pytest.mark.xdist_group("cuda")]

NET = """
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(128, 256), nn.Linear(256, 128, bias=False)
        self.half()
    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))
"""
WEIGHTS = 2 * 128 * 256


def quantize(folder: Path, rows: int, **attributes: Any) -> Quantized:
    given = {"weights": "int8", "group_size": None, "modules": [], "exclude": []} | attributes
    table = {
        "kind": "cuda",
        "quantizing": "modelbuild_rules.backends.cuda.steps.quantizing",
        "attributes": given,
    }
    inputs = [{"name": "x", "shape": [rows, 128], "dtype": "float16", "range": [-1, 1]}]
    return run_quantization(folder, NET, [table], (), inputs=inputs)


def compiled(quantized: Quantized, rows: int, runtime: Path, folder: Path) -> Built:
    program = quantized.program()
    lowered = lower(program, [CUDA, PORTABLE], folder / "lowered")
    (part,) = lowered.plan
    assert lowered.taken(None) == []
    compile_partition(lowered.folder / "partitions" / part["id"], "86", runtime, folder / "out")
    torch.manual_seed(0)
    calls = [[torch.rand(rows, 128, dtype=torch.float16) * 2 - 1] for _ in range(2)]
    return Built(folder / "out", calls, [[program.module()(*call)] for call in calls])


@pytest.mark.parametrize(
    ("weights", "group_size", "rows", "size"),
    [
        ("int8", None, 1, WEIGHTS),
        ("int4", None, 1, WEIGHTS // 2),
        ("int8", None, 48, WEIGHTS),
        ("int4", 128, 48, WEIGHTS // 2),
    ],
)
def test_results_and_the_size_of_the_weights(
    weights: str,
    group_size: int | None,
    rows: int,
    size: int,
    cpp_runtime: Path,
    run_emulated: Callable[[Built], Any],
    tmp_path: Path,
) -> None:
    quantized = quantize(tmp_path / "model", rows, weights=weights, group_size=group_size)
    made = compiled(quantized, rows, cpp_runtime, tmp_path)
    outputs, _ = run_emulated(made)
    for (found,), (expected,) in zip(outputs, made.expected, strict=True):
        assert found.dtype == torch.float16
        torch.testing.assert_close(found, expected, rtol=0, atol=4e-3)
    constants = [each for each in read_named(made.folder / "compiled") if each.key.endswith("_constant")]
    # Scales are float16 or float32, of channels or of groups.
    assert sum(each.path.stat().st_size for each in constants) < size * 1.2
