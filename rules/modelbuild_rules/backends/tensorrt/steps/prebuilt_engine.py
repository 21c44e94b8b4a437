"""Check an engine from elsewhere against its declaration, and write it as a compiled partition. Torch-free.

Inputs   plan      the engine
Params   version, compute_capabilities, arch, inputs, outputs, profiles, version_compatible, host_code, gpu: as declared
         places    places of attributes in the BUILD file, for errors; not in the key
Outputs  compiled  tree: a compiled partition, with about.json
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modelbuild.step import Step, StepError
from modelbuild_rules.backend_api.steps.compiled import PROCESSED
from modelbuild_rules.backend_api.steps.named_data import write_named
from modelbuild_rules.backends.tensorrt.steps.engine.about import write_about
from modelbuild_rules.backends.tensorrt.steps.engine.blob import Metadata, write_blob
from modelbuild_rules.backends.tensorrt.steps.engine.plan_header import PlanHeader, read_header


def run(step: Step) -> None:
    plan, params = step.input("plan"), step.params
    header = _header(plan, params)
    inputs, outputs = params["inputs"], params["outputs"]
    metadata = Metadata(
        tuple(map(_binding, inputs)),
        tuple(map(_binding, outputs)),
        params["gpu"],
        platform=f"linux_{params['arch']}",
        declared={
            "compute_capabilities": params["compute_capabilities"],
            "version_compatible": params["version_compatible"],
            "host_code": params["host_code"],
            "inputs": [{**_typed(each), "profiles": _profiles(each["shape"], params["profiles"])} for each in inputs],
            "outputs": [{**_typed(each), "shape": _varying(each["shape"])} for each in outputs],
        },
    )
    folder = step.outputs["compiled"]
    with plan.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as engine:
        write_blob(folder / PROCESSED, metadata, engine)
    write_named(folder, ())
    write_about(folder, header, params["compute_capabilities"], params["version_compatible"])


def _header(plan: Path, params: Mapping[str, Any]) -> PlanHeader:
    """Return the engine's header. Raises StepError if it differs from the declaration."""
    places = params["places"]
    with plan.open("rb") as file:
        start = file.read(256)
    try:
        header = read_header(start)
    except ValueError as problem:
        raise StepError(f"{places['plan']}: {plan.name} {problem}") from None
    size = plan.stat().st_size
    if header.size > size:
        raise StepError(f"{places['plan']}: {plan.name} is cut off: it has {size} bytes of {header.size}")
    if header.version_text != params["version"]:
        built = f"{plan.name} was built with {header.product} {header.version_text}"
        raise StepError(f"{places['version']}: {built}; the target declares {params['version']}")
    if header.capability is not None and header.capability not in params["compute_capabilities"]:
        built = f"{plan.name} was built on a GPU of compute capability {header.capability}"
        declared = ", ".join(params["compute_capabilities"])
        raise StepError(f"{places['compute_capabilities']}: {built}; the target declares {declared}")
    if header.product == "TensorRT-RTX" and params["version_compatible"]:
        raise StepError(f"{places['plan']}: {plan.name} is for TensorRT-RTX; expected version_compatible = false")
    return header


def _binding(declared: Mapping[str, Any]) -> str:
    return str(declared["binding"] or declared["name"])


def _typed(declared: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": _binding(declared), "dtype": declared["dtype"]}


def _profiles(shape: Sequence[int | str], profiles: Sequence[Mapping[str, Any]]) -> list[dict[str, list[int]]]:
    """Return an input's shapes in each profile; without profiles, in the default profile of every engine."""
    return [
        {bound: [profile[size][bound] if isinstance(size, str) else size for size in shape] for bound in _BOUNDS}
        for profile in profiles or [{}]
    ]


def _varying(shape: Sequence[int | str]) -> list[int]:
    """Return a shape as an engine states it: -1 for a size that varies."""
    return [-1 if isinstance(size, str) else size for size in shape]


_BOUNDS = ("min", "opt", "max")
