"""Small models of many kinds, and the steps from an exported program to a .pte, run one after the other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim, ExportedProgram

from modelbuild.step import Step, ignore_progress
from tests.rules.xnnpack_steps import compile_xnnpack

XNNPACK: Mapping[str, Any] = {
    "precisions": ["dynamic_quant", "fp32", "static_quant"],
    "per_op_mode": False,
    "exclude_ops": [],
    "force_non_static_weights_for_f32_linear": False,
    "lossy": [],
}


class Conv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 4, 3, stride=2)
        self.norm.running_mean.uniform_(-0.5, 0.5)
        self.norm.running_var.uniform_(0.5, 2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(F.max_pool2d(F.relu(self.norm(self.first(x))), 2))


class Depthwise(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.deep = nn.Conv2d(8, 8, 3, groups=8)
        self.point = nn.Conv2d(8, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.hardswish(self.point(F.hardtanh(self.deep(x))))


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 32)
        self.second = nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.softmax(self.second(F.gelu(self.first(x))), -1)


class Multi(nn.Module):
    """Portable operators between partitions, one of which reads weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.table = nn.Embedding(10, 8)
        self.second = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        middle = torch.cumsum(F.relu(self.first(x)), -1) + self.table(i)
        return self.second(middle), torch.topk(x, 2)[0]


class Counter(nn.Module):
    """Buffers that change at every call; one begins as something else than zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("sum", torch.tensor([1.0, 2.0, 3.0, 4.0]))
        self.register_buffer("calls", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.sum.add_(x[0])
        self.calls.add_(1.0)
        return self.layer(x) * self.sum + self.calls


class Twins(nn.Module):
    """Two blocks that are equal but for their names and places."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.second.load_state_dict(self.first.state_dict())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.second(torch.cumsum(F.relu(self.first(x)), -1)))


class Head(nn.Module):
    """A body and a head in separate partitions."""

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.head = nn.Linear(8, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.cumsum(F.relu(self.body(x)), -1))


class Tied(nn.Module):
    """One weight in two partitions and in a portable operator."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(torch.cumsum(F.linear(x, self.weight), -1), self.weight) + torch.sum(self.weight)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        qkv = self.qkv(self.norm(x)).reshape(x.shape[0], x.shape[1], 3, 2, 8)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        return torch.cond(y.sum() > 0, lambda t: (torch.sin(t) * 2,), lambda t: (torch.cos(t) + 1,), (y,))[0]


class Pooling(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        resized = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        return F.avg_pool2d(x, 2), F.max_pool2d(x, 2), x.mean((2, 3), keepdim=True), resized


class Elementwise(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.exp(-x.abs()) * y + torch.sigmoid(x) / (y * y + 1),
            torch.clamp(x, -0.5, 0.5),
            torch.where(x > y, x, y),
        )


class Portable(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.topk(torch.cumsum(x, 0), 2)[0], x.argmax(-1)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(6, 5, batch_first=True)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        return self.layer(x, (state, state))[0]


class Candidates(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(F.relu(self.layer(x)))


MODELS: Mapping[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]] = {
    "conv": lambda: (Conv(), (torch.randn(1, 3, 16, 16),)),
    "conv_dynamic": lambda: (Conv(), (torch.randn(2, 3, 16, 16),)),
    "depthwise": lambda: (Depthwise(), (torch.randn(1, 8, 8, 8),)),
    "mlp": lambda: (Mlp(), (torch.randn(4, 16),)),
    "mlp_dynamic": lambda: (Mlp(), (torch.randn(4, 16),)),
    "mlp_half": lambda: (Mlp().half(), (torch.randn(4, 16).half(),)),
    "conv_static_quant": lambda: (Conv(), (torch.randn(1, 3, 16, 16),)),
    "mlp_dynamic_quant": lambda: (Mlp(), (torch.randn(4, 16),)),
    "multi": lambda: (Multi(), (torch.randn(2, 8), torch.tensor([3, 4]))),
    "counter": lambda: (Counter(), (torch.randn(3, 4),)),
    "twins": lambda: (Twins(), (torch.randn(2, 8),)),
    "head": lambda: (Head(), (torch.randn(2, 8),)),
    "tied": lambda: (Tied(), (torch.randn(2, 8),)),
    "attention": lambda: (Attention(), (torch.randn(2, 5, 16),)),
    "branch": lambda: (Branch(), (torch.randn(2, 4),)),
    "pooling": lambda: (Pooling(), (torch.randn(1, 2, 8, 8),)),
    "elementwise": lambda: (Elementwise(), (torch.randn(3, 4), torch.randn(3, 4))),
    "portable": lambda: (Portable(), (torch.randn(5, 6),)),
    "recurrent": lambda: (Recurrent(), (torch.randn(2, 4, 6), torch.randn(1, 2, 5))),
    "candidates": lambda: (Candidates(), (torch.randn(3, 8),)),
}

REPLACED = ("attention", "candidates", "conv_dynamic", "mlp_half", "recurrent")
"""Programs with nodes that the lowering replaces for XNNPACK, which ExecuTorch's own lowering keeps, or with a range of
sizes that ExecuTorch's own lowering narrows."""


@dataclass(frozen=True)
class Model:
    """A module, its inputs, and its exported program."""

    module: nn.Module
    inputs: tuple[torch.Tensor, ...]
    program: ExportedProgram


# Models whose parts are in others too.
REST = {
    "attention",
    "conv",
    "conv_dynamic",
    "depthwise",
    "elementwise",
    "head",
    "mlp",
    "mlp_dynamic",
    "pooling",
    "tied",
    "twins",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for fixture, left_out in (("every_model", ()), ("unchanged_model", REPLACED)):
        if fixture in metafunc.fixturenames:
            names = [name for name in MODELS if name not in left_out]
            params = [pytest.param(name, marks=pytest.mark.exhaustive if name in REST else ()) for name in names]
            metafunc.parametrize(fixture, params)


@pytest.fixture(scope="session")
def model() -> Callable[[str], Model]:
    """Return the model with a name; its weights are the same each time."""

    def make(name: str) -> Model:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        module, inputs = MODELS[name]()
        module.eval()
        if name.endswith("_quant"):
            module = _quantized(module, inputs, dynamic="dynamic" in name)
        batch = ({0: Dim("batch", min=1, max=16)},) if name.endswith("_dynamic") else None
        return Model(module, inputs, torch.export.export(module, inputs, dynamic_shapes=batch))

    return make


def _quantized(module: nn.Module, inputs: tuple[torch.Tensor, ...], dynamic: bool) -> nn.Module:
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=dynamic)
    prepared = prepare_pt2e(torch.export.export(module, inputs).module(), XNNPACKQuantizer().set_global(config))
    prepared(*inputs)
    return convert_pt2e(prepared)


@dataclass(frozen=True)
class Lowered:
    """The folder of the steps, and their outputs in it."""

    folder: Path

    @property
    def pte(self) -> Path:
        return self.folder / "model.pte"

    @property
    def ptd(self) -> Path:
        return self.folder / "model.ptd"

    @property
    def plan(self) -> list[dict[str, Any]]:
        return json.loads((self.folder / "plan.json").read_text())

    @property
    def delegation(self) -> dict[str, Any]:
        return json.loads((self.folder / "delegation.json").read_text())

    def nodes(self, backend: str) -> dict[str, str]:
        """Nodes that a backend has, and why the first backend of the stack refused them ('' if it did not)."""
        nodes = [node for node in self.delegation["nodes"] if node["backend"] == backend]
        return {node["op"]: node["refused"][0]["why"] if node["refused"] else "" for node in nodes}


@pytest.fixture(scope="session")
def lower() -> Callable[..., Lowered]:
    """Save a program and run partition, compile and emit on it."""
    return run_steps


def run_steps(
    program: ExportedProgram,
    folder: Path,
    xnnpack: Mapping[str, Any] | None = None,
    ops: Sequence[str] | None = None,
    portable: bool = True,
    external: bool = False,
    show: Callable[[str], object] = ignore_progress,
) -> Lowered:
    """Save a program and run the steps on it. `xnnpack` replaces default attributes, `ops` are portable's, and `show`
    gets the progress of the partition step."""
    from modelbuild_rules.model.steps.exported.program import save_program

    for part in ("program", "weights"):
        (folder / part).mkdir(parents=True)
    save_program(program, folder / "program", folder / "weights")
    stack: list[Mapping[str, Any]] = [
        {
            "kind": "xnnpack",
            "partitioning": "modelbuild_rules.backends.xnnpack.steps.partitioning",
            "attributes": {**XNNPACK, **(xnnpack or {})},
        }
    ]
    stack += [{"kind": "portable", "partitioning": "", "attributes": {"ops": ops}}] if portable else []
    return run_steps_on(folder / "program", folder / "weights", folder, stack, external, show)


def run_steps_on(
    program: Path,
    weights: Path,
    folder: Path,
    stack: Sequence[Mapping[str, Any]],
    external: bool = False,
    show: Callable[[str], object] = ignore_progress,
) -> Lowered:
    """Run the steps on a program that is saved already."""
    from modelbuild_rules.program.steps import emit, partition

    def made(name: str) -> Path:
        path = folder / name
        path.mkdir(parents=True)
        return path

    partition.run(
        Step(
            {"backends": stack, "external_weights": external},
            {"program": (program,), "weights": (weights,)},
            {
                "residual": made("residual"),
                "partitions": made("partitions"),
                "plan": folder / "plan.json",
                "report": folder / "report.json",
                "notes": folder / "notes.txt",
            },
            folder,
            show=show,
        )
    )
    ids = [each["id"] for each in json.loads((folder / "plan.json").read_text())]
    for id in ids:
        compile_xnnpack(folder / "partitions" / id, folder / "compiled" / id)
    files = {"pte": "model.pte", "delegation": "delegation.json"}
    outputs = {name: folder / file for name, file in files.items()}
    emit.run(
        Step(
            {"partitions": {"forward": ids}, "sidecars": {}},
            {
                "residual": (folder / "residual",),
                "report": (folder / "report.json",),
                "parts": tuple(folder / "compiled" / id for id in ids),
            },
            {**outputs, "ptd": folder / "model.ptd"} if external else outputs,
            folder,
        )
    )
    return Lowered(folder)


@pytest.fixture(scope="session")
def lowered(model: Callable[[str], Model], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Lowered]:
    """Return a model of MODELS, lowered once with default attributes."""

    @cache
    def make(name: str) -> Lowered:
        folder = tmp_path_factory.mktemp(name)
        shutil.rmtree(folder)
        return run_steps(model(name).program, folder)

    return make


@pytest.fixture(scope="session")
def execute() -> Callable[..., list[torch.Tensor]]:
    """Run a program in executorch's own runtime and return the results of the last of `times` calls."""

    def run(pte: Path, inputs: Sequence[torch.Tensor], ptd: Path | None = None, times: int = 1) -> list[torch.Tensor]:
        from executorch.extension.pybindings._C import _load_for_executorch

        program = _load_for_executorch(str(pte), str(ptd) if ptd else None)
        for _ in range(times):
            results = program.forward([tensor.clone() for tensor in inputs])
        return list(results)

    return run


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="session")
def files() -> Callable[[Path], dict[str, bytes]]:
    """Return all files below a folder, by relative path."""
    return files_of
