"""Models quantized by the steps of a quantized_model, in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelbuild.step import Step, StepError
from tests.rules.model.conftest import run_export

QUANTIZING = "modelbuild_rules.backends.xnnpack.steps.quantizing"
DEFAULTS = {
    "mode": "static",
    "observer": "histogram",
    "weights": "int8",
    "per_channel": True,
    "group_size": None,
    "operators": [],
    "modules": [],
    "exclude": [],
}


def table(**attributes: Any) -> dict[str, Any]:
    """Return a quantizer for XNNPACK with these attributes, as a step's parameter."""
    return {"kind": "xnnpack", "quantizing": QUANTIZING, "attributes": DEFAULTS | attributes}


@dataclass(frozen=True)
class Quantized:
    """The model before and after, and the outputs of the calibration and the conversion."""

    before: Any
    folder: Path

    def program(self) -> Any:
        from modelbuild_rules.model.steps.exported.program import load_program

        return load_program(self.folder / "program", self.folder / "weights")

    def ranges(self) -> dict[str, Any]:
        from safetensors.torch import load_file

        return dict(load_file(self.folder / "observed.safetensors"))

    def operators(self) -> list[str]:
        return [str(node.target) for node in self.program().graph.nodes if node.op == "call_function"]

    def bytes(self) -> dict[str, bytes]:
        paths = [path for path in sorted(self.folder.rglob("*")) if path.is_file()]
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in paths}


def run_quantization(
    root: Path,
    source: str,
    quantizers: Sequence[Mapping[str, Any]],
    samples: Sequence[Mapping[str, np.ndarray]],
    **given: Any,
) -> Quantized:
    """Export a model, calibrate it on samples (none: do not calibrate) and quantize it."""
    from modelbuild_rules.quantization.steps import calibrate, convert, modules, places

    before = run_export(root, source, **given)
    folder = root / f"quantized{sum(1 for _ in root.glob('quantized*'))}"
    for name in ("program", "weights"):
        (folder / name).mkdir(parents=True)
    files = {name: folder / f"{name}.json" for name in ("modules", "origins", "debug")}
    debug = {"debug": (before.folder / "debug.json",)}
    modules.run(Step({}, debug, {"modules": files["modules"]}, root))
    inputs = {name: (before.folder / name,) for name in ("program", "weights")} | {"modules": (files["modules"],)}
    params = {"quantizers": list(quantizers)}
    if samples:
        archives = tuple(folder.parent / f"sample{number}.npz" for number in range(len(samples)))
        for path, arrays in zip(archives, samples, strict=True):
            np.savez(path, **arrays)
        observed = folder / "observed.safetensors"
        read = {"signature": (before.folder / "signature.json",), "samples.archives": archives}
        calibrate.run(Step(params, inputs | read, {"observed": observed}, root))
        inputs["observed"] = (observed,)
    inputs["examples"] = (before.folder / "examples.safetensors",)
    outputs = {"program": folder / "program", "weights": folder / "weights", "origins": files["origins"]}
    convert.run(Step(params, inputs, outputs, root))
    places.run(Step({}, {"origins": (files["origins"],), **debug}, {"debug": files["debug"]}, root))
    assert json.loads(files["debug"].read_text())
    return Quantized(before, folder)


@pytest.fixture
def quantize(tmp_path: Path) -> Callable[..., Quantized]:
    def run(source: str, *quantizers: Any, samples: Any = (), **given: Any) -> Quantized:
        return run_quantization(tmp_path / "workspace", source, quantizers, samples, **given)

    return run


@pytest.fixture
def refusal(quantize: Callable[..., Quantized]) -> Callable[..., str]:
    """Return a function that quantizes a model in a way that must be refused, and returns the reason."""

    def run(*args: Any, **given: Any) -> str:
        with pytest.raises(StepError) as error:
            quantize(*args, **given)
        assert "\n" not in str(error.value)
        return str(error.value)

    return run
