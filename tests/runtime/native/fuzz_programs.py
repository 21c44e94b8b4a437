"""Programs whose kernels compute addresses from data, indices and lists: seeds for damaged programs that are run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_programs(folder: Path) -> list[Path]:
    """Write programs that together have kernels with indices, windows and lists, dynamic shapes, control flow, state,
    several methods, and XNNPACK partitions of floating-point and quantized operators. Return their files."""
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    torch.manual_seed(0)
    paths: list[Path] = []

    def lower(name: str, methods: Any, partitioners: tuple[Any, ...] = ()) -> None:
        config = ExecutorchBackendConfig(passes=[InitializedMutableBufferPass(["count"])])
        program = to_edge_transform_and_lower(methods, partitioner=list(partitioners)).to_executorch(config)
        paths.append(folder / f"{name}.pte")
        paths[-1].write_bytes(program.buffer)

    def export(model: Any, *inputs: Any, dynamic: Any = None) -> Any:
        if isinstance(model, torch.nn.Module):
            return torch.export.export(model.eval(), inputs, dynamic_shapes=dynamic)
        return torch.export.export(_module(model), inputs, dynamic_shapes=dynamic and (dynamic,))

    batch = torch.export.Dim("batch", min=1, max=8)
    image, matrix, numbers = torch.randn(1, 4, 9, 9), torch.randn(4, 6), torch.tensor([0, 2, 1])
    with torch.no_grad():
        lower("indices", export(_indices, matrix, numbers))
        lower("lists", export(_lists, matrix))
        lower("windows", export(_windows(), image))
        lower("reductions", export(_reductions, matrix, dynamic=({0: batch},)))
        lower("branches", export(_branches, matrix))
        lower("loop", export(_loop, matrix))
        lower("state", export(_counter(), matrix[0]))
        xnnpack = (XnnpackPartitioner(),)
        lower("xnnpack_windows", export(_windows(), image), xnnpack)
        lower("xnnpack_elements", export(_elements(), matrix, dynamic=({0: batch},)), xnnpack)
        lower("xnnpack_scalar", export(_scalar, matrix[0, 0]), xnnpack)
        lower("xnnpack_static", export(_quantized(image, dynamic=False), image), xnnpack)
        lower("xnnpack_dynamic", export(_quantized(matrix, dynamic=True), matrix), xnnpack)
        lower("xnnpack_shared", export(_shared(), matrix), xnnpack)
        methods = {"wide": export(torch.nn.Linear(6, 9), matrix), "narrow": export(torch.nn.Linear(6, 2), matrix)}
        lower("methods", methods)
        lower("xnnpack_methods", methods, xnnpack)
    return paths


def _scalar(x: Any) -> Any:
    """Reshape a tensor without dimensions, and back."""
    return (x * 2).reshape(1).reshape(()).abs()


def _shared() -> Any:
    """Return a model in which a product, which packs its weight, and a sum read one constant."""
    import torch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(4, 6))

        def forward(self, x: torch.Tensor) -> Any:
            return torch.nn.functional.linear(x, self.weight), self.weight + x

    return Model()


def _module(function: Callable[..., Any]) -> Any:
    import torch

    class Model(torch.nn.Module):
        def forward(self, *inputs: torch.Tensor) -> Any:
            return function(*inputs)

    return Model()


def _indices(x: Any, at: Any) -> Any:
    import torch

    rows = x.index_select(0, at)
    picked = x[at, at + 1]
    gathered = x.gather(1, at.unsqueeze(0).expand(4, 3))
    spread = torch.zeros(4, 6).scatter(1, at.unsqueeze(0).expand(4, 3), gathered)
    added = spread.scatter_add(1, at.unsqueeze(0).expand(4, 3), gathered)
    filled = x.index_put((at,), rows)
    embedded = torch.nn.functional.embedding(at, x)
    values, best = x.topk(2)
    ordered = x.sort(-1).indices
    return rows, picked, added, filled, embedded, values, best, ordered, x.argmax(1), at.cumsum(0) + at.flip(0)


def _lists(x: Any) -> Any:
    import torch

    first, second = x.split(2)
    joined = torch.cat([first, second, x], 0)
    stacked = torch.stack([first, second], 1)
    return (
        joined,
        stacked,
        x.permute(1, 0),
        x[1:, ::2],
        x.repeat(2, 1),
        x.unfold(1, 3, 2),
        x.expand(2, 4, 6),
        *x.unbind(),
    )


def _windows() -> Any:
    import torch

    class Windows(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.plain = torch.nn.Conv2d(4, 6, 3, stride=2, padding=1)
            self.depthwise = torch.nn.Conv2d(6, 6, 3, groups=6, padding=1)
            self.transposed = torch.nn.ConvTranspose2d(6, 4, 2, stride=2)
            self.norm = torch.nn.BatchNorm2d(6)
            self.leaky = torch.nn.PReLU(6)

        def forward(self, x: torch.Tensor) -> Any:
            y = self.leaky(self.norm(self.plain(x)))
            y = torch.nn.functional.max_pool2d(torch.relu(self.depthwise(y)), 2, stride=1)
            z = torch.nn.functional.interpolate(self.transposed(y), scale_factor=2.0, mode="bilinear")
            padded = torch.nn.functional.pad(z, (1, 2, 1, 0))
            return torch.nn.functional.avg_pool2d(padded, 3), y.mean((2, 3)), torch.nn.functional.pixel_shuffle(x, 2)

    return Windows()


def _elements() -> Any:
    import torch

    class Elements(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(6, 8), torch.nn.Linear(8, 6, bias=False)

        def forward(self, x: torch.Tensor) -> Any:
            y = self.second(torch.nn.functional.gelu(self.first(x))).clamp(-1, 1) * x
            z = torch.cat([y.softmax(-1), x.sigmoid()], 1)[:, 2:8] - y.abs().sqrt()
            return (z @ z.transpose(0, 1)).tanh(), torch.maximum(y, z), torch.nn.functional.elu(z)

    return Elements()


def _quantized(x: Any, dynamic: bool) -> Any:
    """Return a quantized convolution and sum, or a linear layer that is quantized when it runs."""
    import torch
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    class Static(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(4, 4, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.max_pool2d(torch.relu(self.conv(x)) + x, 2)

    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Linear(8, 2)) if dynamic else Static()
    quantizer = XNNPACKQuantizer().set_global(
        get_symmetric_quantization_config(is_per_channel=True, is_dynamic=dynamic)
    )
    prepared = prepare_pt2e(torch.export.export(model.eval(), (x,)).module(), quantizer)
    prepared(x)
    converted = convert_pt2e(prepared)
    converted.eval = converted.train = lambda *_: converted  # exported modules have no modes
    return converted


def _reductions(x: Any) -> Any:
    import torch

    wide = torch.nn.functional.layer_norm(x, (6,))
    largest, where = x.max(1)
    masked = torch.where(x > 0, x, wide).masked_fill(x < -1, 2.0)
    return wide, largest, where, masked.sum(0), x.var(1), x.any(1), masked.log_softmax(1), x.reshape(-1, 2), x.nonzero()


def _branches(x: Any) -> Any:
    import torch

    return torch.cond(x.sum() > 0, lambda y: y * 2, lambda y: y.cumsum(0), (x,))


def _loop(x: Any) -> Any:
    from torch._higher_order_ops.map import map as map_rows

    return map_rows(lambda row, other: row.cumsum(0) + other, x, x.sum(0))


def _counter() -> Any:
    import torch

    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(x)
            return x + self.count

    return Counter()
