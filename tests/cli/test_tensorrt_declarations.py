"""Declarations for TensorRT that can't work: one located line at analysis time, before any work."""

from __future__ import annotations

from typing import Any

import pytest

from tests.program_build import program_build

BUILD = program_build('{ type = "portable" }', entry="model.py:Model")


@pytest.mark.parametrize(
    ("backend", "capability", "message"),
    [
        # This one is correct; the model is read next.
        (
            '{ type = "tensorrt", flavour = "standard" }',
            "9.0",
            "error: model.py:1:14: not Python: invalid syntax",
        ),
        (
            '{ type = "tensorrt", builder = "onnx" }',
            "8.6",
            "BUILD.toml:21:26: unknown attribute 'builder' of 'backends[0]'",
        ),
        (
            '{ type = "tensorrt" }',
            "9.0",
            "error: BUILD.toml:10:1: TensorRT-RTX does not support compute capability 9.0; expected one of 7.5, 8.0,"
            ' 8.6, 8.9, 12.0, 12.1, or flavour = "standard" (device //:device, stack :stack)\n',
        ),
        (
            '{ type = "tensorrt", flavour = "standard" }',
            '8.6", "8.9',
            "error: BUILD.toml:10:1: the standard flavour of TensorRT builds for one compute capability; expected one,"
            ' or flavour = "rtx" (device //:device, stack :stack)\n',
        ),
        (
            '{ type = "tensorrt", target_device = "cuda:1" }',
            "8.6",
            "BUILD.toml:21:26: unknown attribute 'target_device' of 'backends[0]'; expected 'gpu'\n",
        ),
        (
            '{ type = "cuda", data_dependent = "error" }',
            "8.6",
            "BUILD.toml:21:22: unknown attribute 'data_dependent' of 'backends[0]'; expected 'data_dependent_ops'\n",
        ),
        ('{ type = "tensorrt" }', "5.2", "does not support compute capability 5.2; expected one of 7.5,"),
        ('{ type = "tensorrt", precison = "fp16" }', "8.6", "did you mean 'precision'?"),
        ('{ type = "tensorrt", exclude_ops = ["nonzero"] }', "8.6", "expected namespace.name.overload"),
        ('{ type = "tensort" }', "8.6", "tensorrt"),
    ],
)
def test_a_declaration_that_cannot_work(workspace: Any, backend: str, capability: str, message: str) -> None:
    build = BUILD.replace('{ type = "portable" }', backend).replace("8.6", capability)
    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": build, "model.py": "this is read by nobody"})
    ended = workspace.run("build", "//:program")
    assert ended.code == 3, ended.err
    assert message in ended.err
    assert "ran" not in ended.err
    assert "Traceback" not in ended.err


def test_a_device_that_tensorrt_has_no_library_for(workspace: Any) -> None:
    build = BUILD.replace('{ type = "portable" }', '{ type = "tensorrt" }').replace("x86_64", "aarch64")
    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": build, "model.py": "this is read by nobody"})
    ended = workspace.run("build", "//:program")
    assert (ended.code, ended.out) == (3, "")
    assert ended.err == (
        "error: BUILD.toml:10:1: TensorRT-RTX has no library for aarch64; expected a device with arch x86_64, or"
        ' flavour = "standard" (device //:device, stack :stack)\n'
    )


def test_a_dynamic_dimension_without_a_greatest_size(workspace: Any) -> None:
    """Each dynamic dimension then has a range for an engine's profile."""
    build = BUILD.replace("shape = [2]", 'shape = ["n"]').replace(
        "\n\n[[pte", "\ndynamic = { n = { min = 1 } }\n\n[[pte", 1
    )
    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": build, "model.py": ""})
    ended = workspace.run("build", "//:program")
    assert ended.code == 3, ended.err
    assert ended.err == "error: BUILD.toml:6:13: 'dynamic.n' of torch_model 'model' lacks the attribute 'max'\n"


MODEL = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.exp(torch.sin(torch.cos(torch.tanh(torch.relu(x)))))
"""


@pytest.mark.slow
def test_facts_that_only_a_build_finds(workspace: Any) -> None:
    """Set the model's inputs and the installed packages."""

    def build(backend: str) -> tuple[int, list[str]]:
        text = BUILD.replace('{ type = "portable" }', backend)
        workspace.write({"MODELBUILD.toml": "", "BUILD.toml": text, "model.py": MODEL})
        ended = workspace.run("build", "//:program")
        assert "Traceback" not in ended.err
        return ended.code, [line for line in ended.err.splitlines() if line.startswith("error: ")]

    assert build('{ type = "tensorrt", optimization_profiles = [{ y = { min = [2], opt = [2], max = [2] } }] }') == (
        1,
        [
            "error: weights //:program :model with :stack: optimization_profiles[0].y: the model has no input 'y';"
            " expected one of x"
        ],
    )
    assert build('{ type = "tensorrt", flavour = "standard" }') == (
        36,
        [
            "error: //:program needs the package 'tensorrt', which is not installed; install modelbuild[tensorrt],"
            " or name a toolchain, `toolchain = LABEL` in [build] of MODELBUILD.toml"
        ],
    )
