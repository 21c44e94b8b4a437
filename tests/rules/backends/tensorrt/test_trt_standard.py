"""The standard flavour, as far as a machine without the full TensorRT can run it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from modelbuild.rule_runner import RuleRunner
from modelbuild.step import StepError
from modelbuild_rules.backends.tensorrt.steps import partitioning
from modelbuild_rules.backends.tensorrt.steps.engine import settings
from modelbuild_rules.backends.tensorrt.steps.engine.torch_tensorrt_private import import_torch_tensorrt
from tests.program_build import program_build
from tests.rules.backends.tensorrt.conftest import partition

PLAN = b'[{"id": "p0", "entry": 0, "nodes": 3, "bytes": 100}]'


class Nonzero(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(torch.relu(x).reshape(-1))


def test_an_engine_is_compiled_on_a_gpu_of_its_capability_whose_model_is_in_the_key(tmp_path: Path) -> None:
    table = '{ type = "tensorrt", flavour = "standard" }'
    build = program_build(table, entry="net.py:Net", device='compute_capabilities = ["9.0"]')
    program = RuleRunner(tmp_path, {"BUILD.toml": build, "net.py": ""}).target("//:program")
    program.expand(PLAN)
    actions = {action.mnemonic: action for action in program.actions.values()}
    resources = actions["compile"].resources
    assert (resources.gpu, resources.compute_capability) == (1, "9.0")  # the GPUs of an action are in its key
    assert actions["partition"].resources.gpu == 0
    assert actions["compile"].params["attributes"]["compute_capabilities"] == ["9.0"]
    assert {"tensorrt", "torch-tensorrt"} <= set(actions["compile"].tools)
    offered = actions["partition"].params["backends"][0]["attributes"]
    for attributes in (offered, actions["compile"].params["attributes"]):
        assert (attributes["flavour"], attributes["fallback_data_dependent_ops"]) == ("standard", False)


def test_the_builder_of_rtx_gets_compute_capabilities_and_the_standard_one_the_gpu_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trt = SimpleNamespace(ComputeCapability=SimpleNamespace(SM86="sm86", SM89="sm89"), __name__="trt", __version__="1")
    set_to: list[Any] = []
    config = SimpleNamespace(set_compute_capability=lambda *given: set_to.append(given))
    settings.capability_setter("rtx", ["8.9", "8.6"], trt)(config)
    assert (config.num_compute_capabilities, set_to) == (2, [("sm86", 0), ("sm89", 1)])

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0))
    settings.capability_setter("standard", ["9.0"], SimpleNamespace())(SimpleNamespace())  # neither has such members
    with pytest.raises(StepError, match=r"for the GPU here, of compute capability 9\.0; expected a GPU of .* 8\.9$"):
        settings.capability_setter("standard", ["8.9"], SimpleNamespace())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(StepError, match="standard TensorRT builds on a GPU, and there is none here; expected a GPU"):
        settings.capability_setter("standard", ["8.9"], SimpleNamespace())


def test_operators_whose_converter_needs_an_output_allocator_are_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On the converter registry of TensorRT-RTX's package, which is the same code."""
    import_torch_tensorrt("rtx")
    for module in (settings, partitioning):
        monkeypatch.setattr(module, "import_torch_tensorrt", lambda flavour: import_torch_tensorrt("rtx"))
    assert settings.compilation_settings({"flavour": "standard"}).fallback_data_dependent_ops is False
    assert settings.compilation_settings({"flavour": "rtx"}).fallback_data_dependent_ops is True
    x = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    rtx = partition(Nonzero(), (x,), tmp_path / "rtx", {})
    assert "output allocator" in rtx.why("aten.nonzero.default")
    standard = {"flavour": "standard", "fallback_data_dependent_ops": False}
    made = partition(Nonzero(), (x,), tmp_path / "standard", standard)
    assert "output allocator" not in made.why("aten.nonzero.default")
