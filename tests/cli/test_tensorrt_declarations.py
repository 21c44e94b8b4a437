"""Declarations for TensorRT that can't work: one located line at analysis time, before any work."""

from __future__ import annotations

from typing import Any

import pytest

BUILD = """
[[torch_model]]
name = "model"
entry = "model.py:Model"
srcs = ["model.py"]
inputs = [{ name = "x", shape = [2], dtype = "float32" }]

[[pte_program]]
name = "program"
model = ":model"
stack = ":stack"
device = ":device"

[[device_target]]
name = "device"
arch = "x86_64"
compute_capability = ["8.6"]

[[backend_stack]]
name = "stack"
backends = [
    { type = "portable" },
]
"""


@pytest.mark.parametrize(
    ("backend", "capability", "message"),
    [
        (
            '{ type = "tensorrt", require_full_compilation = true, fallback_data_dependent_ops = true }',
            "8.6",
            "BUILD.toml:22:59: require_full_compilation leaves no node to fall back; expected one of the two",
        ),
        (
            '{ type = "tensorrt" }',
            "9.0",
            "BUILD.toml:11:1: TensorRT-RTX does not support compute capability 9.0; expected one of 7.5, 8.0, 8.6,",
        ),
        ('{ type = "tensorrt" }', "5.2", "does not support compute capability 5.2; expected one of 7.5,"),
        ('{ type = "tensorrt", precison = "fp16" }', "8.6", "did you mean 'precision'?"),
        ('{ type = "tensorrt", torch_executed_ops = ["nonzero"] }', "8.6", "expected namespace.name.overload"),
        ('{ type = "tensort" }', "8.6", "tensorrt"),
    ],
)
def test_a_declaration_that_cannot_work(world: Any, backend: str, capability: str, message: str) -> None:
    build = BUILD.replace('{ type = "portable" }', backend).replace("8.6", capability)
    world.write({"MODELBUILD.toml": "", "BUILD.toml": build, "model.py": "this is read by nobody"})
    ended = world.run("build", "//:program")
    assert ended.code == 3, ended.err
    assert message in ended.err
    assert "ran" not in ended.err
    assert "Traceback" not in ended.err
