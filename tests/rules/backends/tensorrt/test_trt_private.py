"""The private names of torch and torch_tensorrt that steps use exist in the checked versions."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
from typing import Any

import pytest
import torch

from modelbuild.step import StepError
from modelbuild_rules.backends.tensorrt.backend import RTX_CAPABILITIES
from modelbuild_rules.backends.tensorrt.steps.engine import torch_tensorrt_private
from modelbuild_rules.backends.tensorrt.steps.engine.settings import (
    capabilities,
    compilation_settings,
    known_capabilities,
)
from tests.private_names import is_there


@pytest.fixture(scope="module", autouse=True)
def torch_tensorrt() -> Any:
    return torch_tensorrt_private.import_torch_tensorrt("rtx")


@pytest.mark.parametrize("name", torch_tensorrt_private.PRIVATE)
def test_a_name_is_there(name: str) -> None:
    assert is_there(name)


def test_attributes_of_objects() -> None:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv
    from torch_tensorrt.dynamo.conversion._TRTInterpreter import TRTInterpreter

    assert getattr(ShapeEnv(), torch_tensorrt_private.PENDING) == []
    module = torch.fx.symbolic_trace(torch.nn.ReLU())
    interpreter = TRTInterpreter(module, [], compilation_settings=compilation_settings({}))
    for name in torch_tensorrt_private.INSTANCE:
        assert hasattr(interpreter, name), name


def test_nothing_stays_replaced() -> None:
    assert torch.cuda.get_device_capability.__module__ == torch.cuda.current_device.__module__ == "torch.cuda"


def test_the_builder_knows_the_capabilities_that_a_device_may_have() -> None:
    import tensorrt_rtx

    assert tuple(known_capabilities(tensorrt_rtx)) == RTX_CAPABILITIES
    with pytest.raises(StepError, match=r"builds nothing for compute capability 9.0; expected one of 7.5, 8.0, 8.6"):
        capabilities(["9.0"], tensorrt_rtx)


def test_settings_of_an_older_version_take_defaults_for_what_they_lack() -> None:
    """Blobs stored by us and by torch_tensorrt before fallback_data_dependent_ops existed."""
    from torch_tensorrt.dynamo import CompilationSettings

    ours = {"flavour": "rtx", "precision": "fp32", "min_block_size": 3, "exclude_ops": ["aten.add.Tensor"]}
    settings = compilation_settings(ours)
    assert settings.fallback_data_dependent_ops
    assert (settings.min_block_size, settings.disable_tf32, settings.workspace_size) == (3, True, 1 << 30)
    assert settings.torch_executed_ops == {"torch.ops.aten.add.Tensor"}
    assert not compilation_settings({**ours, "fallback_data_dependent_ops": False}).fallback_data_dependent_ops
    stored = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    del stored["fallback_data_dependent_ops"]
    theirs = CompilationSettings.__new__(CompilationSettings)
    theirs.__setstate__(stored)
    assert theirs.fallback_data_dependent_ops is False


def test_engines_are_never_taken_from_torch_tensorrts_own_cache() -> None:
    settings = compilation_settings({})
    assert (settings.cache_built_engines, settings.reuse_cached_engines) == (False, False)


@pytest.mark.parametrize(
    ("flavour", "message"),
    [
        ("rtx", r"'torch-tensorrt-rtx' is not installed; install modelbuild\[tensorrt-rtx\]"),
        ("standard", r"'torch-tensorrt' is not installed; install modelbuild\[tensorrt\]"),
    ],
)
def test_a_missing_package(monkeypatch: pytest.MonkeyPatch, flavour: str, message: str) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(torch_tensorrt_private, "version", missing)
    with pytest.raises(StepError, match=message):
        torch_tensorrt_private.import_torch_tensorrt(flavour)


def test_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_tensorrt_private, "version", lambda _: "2.15.0")
    with pytest.raises(StepError, match=r"2.15.0 is installed; expected torch-tensorrt-rtx==2.14.0"):
        torch_tensorrt_private.import_torch_tensorrt("rtx")


def test_another_flavour_than_its_package_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_tensorrt_private, "version", lambda _: torch_tensorrt_private.CHECKED)
    with pytest.raises(StepError, match="not of the flavour 'standard'"):
        torch_tensorrt_private.import_torch_tensorrt("standard")
