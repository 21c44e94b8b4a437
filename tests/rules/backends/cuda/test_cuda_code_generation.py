"""Operators that Inductor's own choices would not compile for the delegate: each becomes kernels, without a GPU."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from modelbuild_rules.backends.cuda.steps.generate.decompositions import (
    added_product,
    floor_divided,
    product,
    remainder,
)
from modelbuild_rules.backends.cuda.steps.generate.generate import _make_outputs_contiguous

HERE = Path(__file__).parent
SIZE = torch.export.Dim("size", min=2, max=64)


def floats(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def whole(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.randint(-99, 99, shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def complex_product(x: Tensor, y: Tensor) -> Tensor:
    return torch.view_as_real(torch.view_as_complex(x) @ torch.view_as_complex(y))


def products_of_the_same(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return torch.einsum("bij,bjk->bik", x, y), torch.einsum("bij,bjk->ki", x, y)


def normalized(x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    given = (x, variance, mean, mean, variance, 0.1, 1e-5)
    updated = torch.ops.aten._batch_norm_with_update_functional.default(*given)[0]
    return updated + torch.ops.aten._batch_norm_no_update.default(*given)[0]


CASES: Mapping[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "cumsum": (lambda x: x.cumsum(-1), (floats(2, 9000),)),
    "cumsum of columns": (lambda x: x.cumsum(0), (floats(9000, 3),)),
    "cumsum of integers": (lambda x: x.cumsum(-1), (whole(2, 9000),)),
    "cumprod": (lambda x: x.cumprod(-1), (floats(2, 9000),)),
    "logcumsumexp": (lambda x: x.logcumsumexp(-1), (floats(2, 9000),)),
    "cumsum of a softmax": (lambda x: x.softmax(-1).cumsum(-1), (floats(1, 50000),)),
    "mm of integers": (torch.mm, (whole(4, 5), whole(5, 6))),
    "bmm of int32": (torch.bmm, (whole(2, 4, 5, dtype=torch.int32), whole(2, 5, 6, dtype=torch.int32))),
    "addmm of integers": (torch.addmm, (whole(6), whole(4, 5), whole(5, 6))),
    "mm without depth": (torch.mm, (floats(4, 0), floats(0, 6))),
    "bmm without batch": (torch.bmm, (floats(0, 4, 3), floats(0, 3, 6))),
    "addmm without rows": (torch.addmm, (floats(6), floats(0, 5), floats(5, 6))),
    "mm of complex numbers": (complex_product, (floats(4, 5, 2), floats(5, 6, 2))),
    "batch norms": (normalized, (floats(2, 3, 4, 4), floats(3), floats(3).abs())),
    "two products of the same": (products_of_the_same, (floats(2, 3, 4), floats(2, 4, 5))),
}


class Model(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, y: Tensor | None = None, z: Tensor | None = None) -> Any:
        return self.function(*(each for each in (x, y, z) if each is not None))


class Generated(NamedTuple):
    """The text of a partition's kernels and of its wrapper, and the number of calls without an estimated time."""

    kernels: str
    wrapper: str
    unknown: int


def generates(lowered: Any, folder: Path) -> Generated:
    """Generate the code of a program's only partition."""
    (part,) = lowered.plan
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "TRITON_CACHE_DIR": str(folder / "triton")}
    code = (
        "import json, sys; from pathlib import Path\n"
        "from modelbuild_rules.backends.cuda.steps.generate.generate import generate\n"
        "from modelbuild_rules.backends.cuda.steps.generate.no_gpu import no_gpu\n"
        "from modelbuild_rules.backend_api.steps.partition_files import read_partition\n"
        "with no_gpu(): made = generate(*read_partition(Path(sys.argv[1])), [90])\n"
        "kernels = ''.join(kernel.request.source for kernel in made.kernels)\n"
        "unknown = sum('seconds' not in each for each in made.estimate['kernels'])\n"
        "Path(sys.argv[2]).write_text(json.dumps([kernels, made.source, unknown]))"
    )
    out = folder / "generated.json"
    done = subprocess.run(
        [sys.executable, "-c", code, lowered.folder / "partitions" / part["id"], out],
        env={**os.environ, **caches},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return Generated(*json.loads(out.read_text()))


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CASES)
def test_kernels_are_generated(name: str, lowering: Any, tmp_path: Path) -> None:
    function, given = CASES[name]
    lowered = lowering(torch.export.export(Model(function), given), [lowering.cuda()])
    assert lowered.taken(None) == []
    generates(lowered, tmp_path)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_kernels_are_generated_for_two_products_of_any_size(lowering: Any, tmp_path: Path) -> None:
    given = (floats(3, 3, 4), floats(3, 4, 5))
    exported = torch.export.export(Model(products_of_the_same), given, dynamic_shapes={"x": {0: SIZE}, "y": {0: SIZE}})
    generates(lowering(exported, [lowering.cuda()]), tmp_path)


def test_outputs_are_contiguous() -> None:
    """The program's memory for them is, and neither the runtime nor a CUDA graph rearranges values."""
    program = torch.export.export(Model(lambda x: (x * 2, (x * 2).mT, x.mT, x.mT)), (floats(2, 3, 4),))
    _make_outputs_contiguous(program)
    (output,) = program.graph.find_nodes(op="output")
    assert all(each.meta["val"].is_contiguous() for each in output.args[0])
    x = floats(2, 3, 4) + 1
    for made, expected in zip(program.module()(x), (x * 2, x.mT * 2, x.mT, x.mT), strict=True):
        assert made.is_contiguous()
        assert torch.equal(made, expected)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize(("alpha", "beta"), [(1, 1), (2, 3), (3, 0)])
def test_products_of_integers_are_those_of_eager_mode(dtype: torch.dtype, alpha: int, beta: int) -> None:
    x, y, bias = (whole(*shape, dtype=dtype) for shape in ((2, 4, 5), (2, 5, 6), (6,)))
    assert torch.equal(product(x, y), x @ y)
    assert torch.equal(product(x[0], y[0]), x[0] @ y[0])
    expected = torch.addmm(bias, x[0], y[0], alpha=alpha, beta=beta)
    assert torch.equal(added_product(bias, x[0], y[0], alpha=alpha, beta=beta), expected)


def test_empty_products_are_those_of_eager_mode() -> None:
    for x, y in ((floats(4, 0), floats(0, 6)), (floats(0, 5), floats(5, 6)), (floats(2, 4, 0), floats(2, 0, 6))):
        assert torch.equal(product(x, y), x @ y)
    assert product(floats(2, 3), floats(3, 4)) is NotImplemented


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_quotients_and_remainders_of_floats_are_those_of_eager_mode(dtype: torch.dtype) -> None:
    inf, nan = float("inf"), float("nan")
    values = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.1, -0.1, 3.0, 7.5, -7.5, inf, -inf, nan], dtype=dtype)
    for y in (values, *values.tolist()):
        other = y if isinstance(y, float) else y.unsqueeze(1)
        torch.testing.assert_close(
            remainder(values, other), torch.remainder(values, other), rtol=0, atol=0, equal_nan=True
        )
        torch.testing.assert_close(
            floor_divided(values, other), torch.floor_divide(values, other), rtol=0, atol=0, equal_nan=True
        )


def kept_exact(x: Tensor, y: Tensor, a: Tensor) -> tuple[Tensor, ...]:
    return x // y, x // 5, torch.div(x, y, rounding_mode="trunc"), a % 2.0, torch.fmod(a, a + 1), a // 0.1


@pytest.mark.slow
@pytest.mark.exhaustive
def test_integers_are_not_divided_as_floats(lowering: Any, tmp_path: Path) -> None:
    given = (whole(4), whole(4).abs() + 1, floats(4))
    generated = generates(lowering(torch.export.export(Model(kept_exact), given), [lowering.cuda()]), tmp_path)
    assert ".to(tl.float64)" not in generated.kernels
    assert generated.kernels.count("libdevice.fmod") == 3


def counted(x: Tensor) -> tuple[Tensor, Tensor]:
    number = (x > 0).sum().item()
    torch._check(number <= 3)
    rows = x[x > 1].reshape(-1, 1).expand(-1, 4)
    return torch.arange(number), torch.stack([rows[:, 0::2], rows[:, 1::2]], 2)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_only_numbers_that_the_program_reads_are_checked(lowering: Any, tmp_path: Path) -> None:
    """A count of elements is within its bounds, and may be 0."""
    generated = generates(lowering(torch.export.export(Model(counted), (floats(4),)), [lowering.cuda()]), tmp_path)
    assert generated.wrapper.count("aoti_torch_item_int64") == 2
    expected = re.findall(r"Expected (u\d+) (>= 0|<= 3) ", generated.wrapper)
    assert generated.wrapper.count("Expected ") == len(expected)
    assert len(set(expected)) == 2
    assert len({number for number, _ in expected}) == 1
    assert generated.unknown == 2
