"""`precision = "fp16"` and `"bf16"`: engines compute in these types, with the exceptions of the recipe `half`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps.partition_files import read_partition
from modelbuild_rules.backends.tensorrt.steps.engine import half_precision
from modelbuild_rules.backends.tensorrt.steps.engine.engine import build
from modelbuild_rules.backends.tensorrt.steps.engine.lowering import lowered
from modelbuild_rules.backends.tensorrt.steps.engine.settings import compilation_settings

TYPES = {"fp16": "float16", "bf16": "bfloat16"}


class Net(nn.Module):
    """A linear layer before a function."""

    def __init__(self, function: Callable[[Tensor], Any], width: int = 8) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(32, width)
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(self.layer(x))


def detections(y: Tensor) -> tuple[Tensor, ...]:
    scores, chosen = y[..., 0].sigmoid().topk(50, -1)
    return scores, chosen, y[..., 1:5].gather(1, chosen[..., None].expand(-1, -1, 4))


X = torch.randn(1, 400, 32, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("precision", TYPES)
def test_layers_compute_in_it_and_results_keep_their_type(
    partition: Callable[..., Any], compiled: Mapping[str, Any], tmp_path: Path, precision: str
) -> None:
    found = {}
    for each in ("fp32", precision):
        made = partition(Net(torch.relu), (X,), tmp_path / each, {"precision": each})
        program = read_partition(made.folder / "partitions/p0")[0]
        found[each] = build(program, {**compiled, "precision": each})
    assert found["fp32"].precisions == ("float32",)
    assert set(found[precision].precisions) == {TYPES[precision], "float32"}  # float32 is its inputs' and outputs'
    weights = lowered(program, compilation_settings({}), precision).state_dict().values()
    assert {str(each.dtype) for each in weights} == {f"torch.{TYPES[precision]}"}
    assert build(program, {**compiled, "precision": "tf32"}).precisions == ("tf32",)


@pytest.mark.parametrize("name", ["square", "exp", "rsqrt", "softplus", "sum"])
def test_exceptions_stay_in_float32(partition: Callable[..., Any], tmp_path: Path, name: str) -> None:
    """Squares of 1,000 are infinite in float16."""
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "square": lambda y: (y * 1000).square().mean(-1),
        "exp": lambda y: y.exp(),
        "rsqrt": lambda y: (y.abs() + 0.5).rsqrt(),
        "softplus": lambda y: F.softplus(y),
        "sum": lambda y: (y * 1000).abs().sum((1, 2)),
    }
    made = partition(Net(functions[name]), (X,), tmp_path / "made", {"precision": "fp16"})
    module = lowered(read_partition(made.folder / "partitions/p0")[0], compilation_settings({}), "fp16")
    found = next(iter(module(X)))
    assert found.isfinite().all()
    dtypes = {node.meta["val"].dtype for node in module.graph.nodes if node.op == "call_function"}
    assert dtypes - {torch.bool} == {torch.float16, torch.float32}


@pytest.mark.parametrize("precision", TYPES)
@pytest.mark.parametrize("name", ["topk", "sort", "argmax", "comparison", "mask"])
def test_choices_between_near_values_agree(
    partition: Callable[..., Any], tmp_path: Path, name: str, precision: str
) -> None:
    """Half precision changes the order of near scores, so indices and what they select agree as sets."""
    functions: dict[str, Callable[[Tensor], Any]] = {
        "topk": detections,
        "sort": lambda y: y[..., 0].sort(-1),
        "argmax": lambda y: y.argmax(-1),
        "comparison": lambda y: y > 0.1,
        "mask": lambda y: y.masked_fill(y[..., :1] > 0, float("-inf")),
    }
    made = partition(Net(functions[name]), (X,), tmp_path / "made", {"precision": precision})
    assert {node["backend"] for node in made.nodes} == {"tensorrt"}


def test_a_wrong_engine_is_an_error_with_its_first_wrong_node(
    partition: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def doubled(value: Tensor, dtype: torch.dtype) -> Tensor:
        return (2 * value).to(dtype)

    net = Net(lambda y: torch.relu(y.sin() + 1))
    right = half_precision.limited
    monkeypatch.setattr(half_precision, "limited", doubled)
    with pytest.raises(StepError) as error:
        partition(net, (X,), tmp_path / "wrong", {"precision": "fp16"})
    text = str(error.value)
    assert text.startswith("output 0 of partition p0, as TensorRTBackend compiles it, differs")
    assert "the first wrong node is node aten_permute_copy_default from linear (aten.permute_copy.default)" in text
    assert text.endswith('exclude_ops = ["aten.permute_copy.default"] leaves it to the next backend')
    monkeypatch.setattr(half_precision, "limited", right)
    table = {"precision": "fp16", "exclude_ops": ["aten.permute_copy.default"]}
    made = partition(net, (X,), tmp_path / "made", table)
    assert made.why("aten.permute_copy.default") == "listed in exclude_ops"


@pytest.mark.parametrize(
    ("module", "given"),
    [(Net(torch.relu).half(), X.half()), (Net(torch.relu).bfloat16(), X.bfloat16())],
    ids=["float16", "bfloat16"],
)
def test_it_is_an_error_without_float32(
    partition: Callable[..., Any], tmp_path: Path, module: nn.Module, given: Tensor
) -> None:
    with pytest.raises(StepError, match='precision = "fp16" has no effect'):
        partition(module, (given,), tmp_path / "made", {"precision": "fp16"})
