"""The check of an engine from elsewhere against its declaration, by its header alone."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from modelbuild.step import Step, StepError
from modelbuild_rules.backends.tensorrt.blob_reader import read_engine
from modelbuild_rules.backends.tensorrt.steps import prebuilt_engine
from modelbuild_rules.backends.tensorrt.steps.engine.plan_header import PlanHeader, libraries, read_header

# As a plan of TensorRT 8.6.0 for compute capability 9.0 has them, from byte 112 on.
BUILT_ON_9_0 = bytes.fromhex("1280010010800100078001000900000007800100000000000780010060361e00")
PARAMS: Mapping[str, Any] = {
    "version": "8.6.0",
    "compute_capabilities": ["9.0"],
    "arch": "x86_64",
    "inputs": [{"name": "x", "binding": "i", "shape": ["n", 4], "dtype": "float32"}],
    "outputs": [{"name": "y", "binding": None, "shape": ["n"], "dtype": "int64"}],
    "profiles": [{"n": {"min": 1, "opt": 4, "max": 8}}, {"n": {"min": 9, "opt": 16, "max": 32}}],
    "version_compatible": True,
    "host_code": False,
    "gpu": 1,
    "places": {"plan": "BUILD.toml:2:1", "version": "BUILD.toml:3:1", "compute_capabilities": "BUILD.toml:4:1"},
}


def plan(tag: bytes = b"ftrt", version: tuple[int, ...] = (8, 6, 0, 12), format: int = 0, more: int = 0) -> bytes:
    rest = bytes(84) + BUILT_ON_9_0 + bytes(100)
    return struct.pack("<4sIQQ4B", tag, format, 1, 28 + len(rest) + more, *version) + rest


def check(folder: Path, content: bytes, **changed: Any) -> Path:
    (folder / "body.plan").write_bytes(content)
    (folder / "compiled").mkdir()
    step = Step({**PARAMS, **changed}, {"plan": (folder / "body.plan",)}, {"compiled": folder / "compiled"}, folder)
    prebuilt_engine.run(step)
    return folder / "compiled"


def test_a_header_states_product_version_size_and_the_gpu_that_built_it() -> None:
    assert read_header(plan()) == PlanHeader("TensorRT", (8, 6, 0), len(plan()), "9.0")
    rtx = read_header(plan(b"vtrt", (1, 6, 1, 120)))
    assert rtx == PlanHeader("TensorRT-RTX", (1, 6, 1), len(plan()))
    assert libraries(rtx, False) == ["libtensorrt_rtx.so.1"]
    assert libraries(read_header(plan(version=(10, 3, 0, 1))), True) == ["libnvinfer.so.10", "libnvinfer_lean.so.10"]


def test_an_engine_as_declared_becomes_a_compiled_partition(tmp_path: Path) -> None:
    compiled = check(tmp_path, plan())
    found = read_engine(compiled / "processed.bin")
    assert (found.inputs, found.outputs, found.device, found.platform) == (("i",), ("y",), 1, "linux_x86_64")
    profiles = [
        {"min": [1, 4], "opt": [4, 4], "max": [8, 4]},
        {"min": [9, 4], "opt": [16, 4], "max": [32, 4]},
    ]
    assert found.metadata["declared"] == {
        "compute_capabilities": ["9.0"],
        "version_compatible": True,
        "host_code": False,
        "inputs": [{"name": "i", "dtype": "float32", "profiles": profiles}],
        "outputs": [{"name": "y", "dtype": "int64", "shape": [-1]}],
    }
    assert (compiled / "processed.bin").read_bytes()[found.offset :] == plan()
    about = json.loads((compiled / "about.json").read_text())
    needed = ["libnvinfer.so.8", "libnvinfer_lean.so.8"]
    assert about["capabilities"] == [90]
    assert about["requires"] == {"product": "TensorRT", "version": "8.6.0", "exact": False, "libraries": needed}


NO_ENGINE = "BUILD.toml:2:1: body.plan is not an engine of TensorRT; expected a file that `trtexec --saveEngine` writes"


@pytest.mark.parametrize(
    ("content", "changed", "line"),
    [
        (b"", {}, NO_ENGINE),
        (b"ftrt" + bytes(20), {}, NO_ENGINE),
        (b"ONNX" + plan()[4:], {}, NO_ENGINE),
        (b"\x20\0\0\0{" + plan(), {}, f"{NO_ENGINE}, without the JSON before it"),
        (plan(format=1), {}, "BUILD.toml:2:1: body.plan is an engine in the unknown format 1; expected format 0"),
        (
            plan(more=9),
            {},
            f"BUILD.toml:2:1: body.plan is cut off: it has {len(plan())} bytes of {len(plan()) + 9}",
        ),
        (
            plan(version=(8, 6, 1, 6)),
            {},
            "BUILD.toml:3:1: body.plan was built with TensorRT 8.6.1; the target declares 8.6.0",
        ),
        (
            plan(),
            {"compute_capabilities": ["8.6", "8.9"]},
            "BUILD.toml:4:1: body.plan was built on a GPU of compute capability 9.0; the target declares 8.6, 8.9",
        ),
        (
            plan(b"vtrt", (8, 6, 0, 0)),
            {},
            "BUILD.toml:2:1: body.plan is for TensorRT-RTX; expected version_compatible = false",
        ),
    ],
)
def test_an_engine_whose_header_differs_is_refused_in_one_line(
    tmp_path: Path, content: bytes, changed: dict[str, Any], line: str
) -> None:
    with pytest.raises(StepError) as raised:
        check(tmp_path, content, **changed)
    assert str(raised.value) == line
