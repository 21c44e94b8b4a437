"""The `tensorrt` table: which step sees which attribute, so that each changes the keys that it should and no other."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from modelbuild_rules.backends.tensorrt import backend
from modelbuild_rules.backends.tensorrt.backend import TENSORRT, Tensorrt

FACTS: dict[str, Any] = {"arch": "x86_64", "os": "linux", "compute_capabilities": ("8.9", "8.6"), "gpu": 0}
BOTH, PARTITION, COMPILE = {"partition", "compile"}, {"partition"}, {"compile"}


def attributes(**given: Any) -> dict[str, Any]:
    import json

    dumped = Tensorrt.model_validate_json(json.dumps({"type": "tensorrt", **given})).model_dump(mode="json")
    del dumped["type"]
    return dumped


def seen(given: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    values = attributes(**given)
    return {
        "partition": TENSORRT.partition_attributes(values, facts),
        "compile": TENSORRT.compile_attributes(values, facts),
    }


@pytest.mark.parametrize(
    ("given", "facts", "changed"),
    [
        ({"precision": "fp32"}, {}, BOTH),
        ({"min_block_size": 2}, {}, PARTITION),
        ({"exclude_ops": ["aten.add.Tensor"]}, {}, PARTITION),
        ({"data_dependent_ops": "take"}, {}, BOTH),
        ({"optimization_profiles": [{"x": {"min": [1], "opt": [2], "max": [3]}}]}, {}, PARTITION),
        ({"workspace_size": "2GiB"}, {}, COMPILE),
        ({"on_failure": "fallback"}, {}, PARTITION),
        ({"gpu": 1}, {}, BOTH),
        ({"flavour": "standard"}, {}, BOTH),
        ({}, {"compute_capabilities": ("8.6",)}, COMPILE),
        ({}, {"gpu": 1}, BOTH),
        ({}, {"arch": "aarch64"}, COMPILE),
        # Another spelling of the same value has the same key.
        ({}, {"compute_capabilities": ("8.6", "8.9")}, set()),
        ({"gpu": 0}, {}, set()),
        ({"data_dependent_ops": "fallback"}, {}, set()),
        ({"workspace_size": 1 << 30}, {}, set()),
        ({}, {"memory": 5}, set()),
    ],
)
def test_readers_of_an_attribute(given: dict[str, Any], facts: dict[str, Any], changed: set[str]) -> None:
    base, other = seen({}, FACTS), seen(given, {**FACTS, **facts})
    assert {step for step in base if base[step] != other[step]} == changed


def test_sets_have_one_order() -> None:
    names = ["aten.sub.Tensor", "aten.add.Tensor", "aten.sub.Tensor"]
    assert attributes(exclude_ops=names) == attributes(exclude_ops=["aten.add.Tensor", "aten.sub.Tensor"])


def test_with_fallback_engine_settings_decide_partitions() -> None:
    one, other = (seen({"on_failure": "fallback", "workspace_size": size}, FACTS)["partition"] for size in (1, 2))
    assert one != other


@pytest.mark.parametrize("gpu", [0, 1])
def test_the_label_follows_the_engine(gpu: int) -> None:
    steps = seen({}, {**FACTS, "gpu": gpu})
    assert (steps["partition"]["target_device"], steps["compile"]["gpu"]) == (f"cuda:{gpu}", gpu)
    steps = seen({"gpu": 5}, {**FACTS, "gpu": gpu})
    assert (steps["partition"]["target_device"], steps["compile"]["gpu"]) == ("cuda:5", 5)


def test_the_standard_flavour_builds_on_a_gpu() -> None:
    assert [TENSORRT.gpus(attributes(flavour=flavour)) for flavour in ("rtx", "standard")] == [0, 1]
    assert TENSORRT.sidecar(attributes(flavour="standard")) is None


def test_defaults_of_the_flavours() -> None:
    fallback = {
        flavour: seen({"flavour": flavour}, FACTS)["partition"]["fallback_data_dependent_ops"]
        for flavour in ("rtx", "standard")
    }
    assert fallback == {"rtx": True, "standard": False}
    assert "torch-tensorrt-rtx" in TENSORRT.compile_tools(attributes())
    assert "torch-tensorrt" in TENSORRT.compile_tools(attributes(flavour="standard"))


@pytest.mark.parametrize(
    ("flavour", "wanted", "problem"),
    [
        ("rtx", ("8.6", "12.0"), ""),
        ("rtx", (), 'TensorRT needs a device with compute_capabilities; expected one such as ["8.9"]'),
        ("rtx", ("8.6", "9.0"), "TensorRT-RTX does not support compute capability 9.0; expected one of 7.5, 8.0, 8.6"),
        ("rtx", ("8.7",), "TensorRT-RTX does not support compute capability 8.7"),
        ("standard", ("9.0",), ""),
        ("standard", ("8.6", "9.0"), "the standard flavour of TensorRT builds for one compute capability"),
    ],
)
def test_a_device_that_it_builds_nothing_for(flavour: str, wanted: tuple[str, ...], problem: str) -> None:
    found = TENSORRT.problem(attributes(flavour=flavour), {**FACTS, "compute_capabilities": wanted})
    assert found.startswith(problem)
    assert bool(found) == bool(problem)


@pytest.mark.parametrize(
    ("flavour", "problem"),
    [
        ("rtx", 'TensorRT-RTX has no library for aarch64; expected a device with arch x86_64, or flavour = "standard"'),
        (
            "standard",
            "the standard flavour of TensorRT builds engines for the machine that it runs on, x86_64; expected a device"
            " with arch x86_64, or a build on a machine with aarch64",
        ),
    ],
)
@pytest.mark.parametrize("capability", ["8.7", "9.0", "10.0", "11.0", "12.1"])
def test_no_flavour_builds_for_aarch64_on_x86_64(
    monkeypatch: pytest.MonkeyPatch, flavour: str, problem: str, capability: str
) -> None:
    monkeypatch.setattr(backend, "machine", lambda: "x86_64")
    facts = {**FACTS, "compute_capabilities": (capability,), "arch": "aarch64"}
    assert TENSORRT.problem(attributes(flavour=flavour), facts) == problem


def test_the_standard_flavour_builds_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "machine", lambda: "aarch64")
    facts = {**FACTS, "compute_capabilities": ("8.7",), "arch": "aarch64"}
    assert TENSORRT.problem(attributes(flavour="standard"), facts) == ""


@pytest.mark.parametrize(
    "wrong",
    [
        {"precision": "int8"},
        {"flavour": "lean"},
        {"min_block_size": 0},
        {"exclude_ops": ["add"]},
        {"optimization_profiles": [{"x": {"min": [1], "max": [3]}}]},
        {"workspace_size": "much"},
        {"on_failure": "ignore"},
        {"gpu": -1},
        {"data_dependent_ops": True},
        {"builder": "onnx"},
    ],
)
def test_wrong_values(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        attributes(**wrong)
