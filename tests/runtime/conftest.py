"""Small programs, lowered once, with their results in eager mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import sealed_programs


@dataclass(frozen=True)
class Sample:
    """A program, and the same model in eager PyTorch on numpy arrays."""

    path: Path
    eager: Callable[..., list[np.ndarray]]


@pytest.fixture(scope="session")
def seal_copy() -> Callable[..., Path]:
    """Return tests.sealed_programs.seal_copy."""
    return sealed_programs.seal_copy


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sample]:
    """two (static), xnnpack, dynamic (batch 1..8), bfloat16, float16, uint8, number (an int input), nonzero,
    channels_last, external (weights in a .ptd), counter (keeps state)."""
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 3)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.linear(x) + y, (x * 2).sum(-1)

    class Pixels(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.float().mean((1, 2)), x[..., 0]

    class Number(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
            return x + n

    class Nonzero(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nonzero(x)

    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return x + self.count

    folder = tmp_path_factory.mktemp("programs")
    torch.manual_seed(0)
    found: dict[str, Sample] = {}

    def lower(
        name: str,
        model: torch.nn.Module,
        args: tuple[Any, ...],
        partitioners: Sequence[Any] = (),
        dynamic: Any = None,
        external: bool = False,
    ) -> None:
        exported = torch.export.export(model.eval(), args, dynamic_shapes=dynamic)
        config = ExecutorchBackendConfig(external_constants=external, passes=[InitializedMutableBufferPass(["count"])])
        program = to_edge_transform_and_lower(exported, partitioner=list(partitioners)).to_executorch(config)
        path = folder / name / f"{name}.pte"
        path.parent.mkdir()
        with path.open("wb") as file:
            program.write_to_file(file)
        if external:
            program.write_tensor_data_to_file(str(path.parent))

        def eager(*arrays: np.ndarray | int) -> list[np.ndarray]:
            given = (
                torch.from_numpy(a).to(x.dtype) if isinstance(a, np.ndarray) else a
                for a, x in zip(arrays, args, strict=True)
            )
            result = model(*given)
            results = result if isinstance(result, tuple) else (result,)
            return [(r.float() if r.dtype == torch.bfloat16 else r).detach().numpy() for r in results]

        found[name] = Sample(path, eager)

    pair = (torch.randn(2, 4), torch.randn(2, 3))
    batch = torch.export.Dim("batch", min=1, max=8)
    lower("two", Two(), pair)
    lower("xnnpack", Two(), pair, [XnnpackPartitioner()])
    lower("dynamic", Two(), pair, dynamic=({0: batch}, {0: batch}))
    lower("bfloat16", Two().bfloat16(), tuple(t.bfloat16() for t in pair))
    lower("float16", Two().half(), tuple(t.half() for t in pair))
    lower("uint8", Pixels(), (torch.zeros(1, 4, 6, 3, dtype=torch.uint8),))
    lower("number", Number(), (torch.randn(2, 2), 3))
    lower("nonzero", Nonzero(), (torch.tensor([0.0, 1.0, 2.0]),))
    example = torch.randn(1, 3, 8, 8).to(memory_format=torch.channels_last)
    lower("channels_last", torch.nn.Conv2d(3, 5, 3), (example,))
    lower("external", Two(), pair, external=True)
    lower("counter", Counter(), (torch.zeros(1),))
    return found
