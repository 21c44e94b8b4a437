"""Convert attributes of a `tensorrt` backend to torch_tensorrt's settings and compute capabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from modelbuild.errors import did_you_mean
from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps.partitioning import AttributeProblem
from modelbuild_rules.backends.tensorrt.steps.engine.torch_tensorrt_private import import_torch_tensorrt

DEFAULTS: Mapping[str, Any] = {
    "flavour": "rtx",
    "precision": "tf32",
    "min_block_size": 1,
    "exclude_ops": (),
    "fallback_data_dependent_ops": None,
    "workspace_size": 1 << 30,
}
"""Values of fields that settings of an older version lack."""


def compilation_settings(attributes: Mapping[str, Any]) -> Any:
    """Return torch_tensorrt's CompilationSettings. Raises StepError for an unknown operator."""
    from torch_tensorrt.dynamo import CompilationSettings

    given = {**DEFAULTS, **attributes}
    torch_tensorrt = import_torch_tensorrt(given["flavour"])
    fallback = given["fallback_data_dependent_ops"]
    return CompilationSettings(
        device=torch_tensorrt.Device("cuda:0"),
        min_block_size=given["min_block_size"],
        torch_executed_ops={_operator(name) for name in given["exclude_ops"]},
        fallback_data_dependent_ops=given["flavour"] == "rtx" if fallback is None else fallback,
        disable_tf32=given["precision"] != "tf32",
        workspace_size=given["workspace_size"],
        cache_built_engines=False,
        reuse_cached_engines=False,
    )


def _operator(name: str) -> str:
    """Return an operator's name in the converter registry: `torch.ops.aten.add.Tensor`."""
    import torch

    registered = {found.replace("::", ".") for found in torch._C._dispatch_get_all_op_names()}
    known = {found if found.count(".") == 2 else f"{found}.default" for found in registered}
    if name not in known:
        near = did_you_mean(name, known)
        raise AttributeProblem("exclude_ops", f"no operator '{name}'; expected one like aten.add.Tensor{near}")
    return f"torch.ops.{name}"


def capability_setter(flavour: str, names: Sequence[str], trt: Any) -> Callable[[Any], None]:
    """Return a function that sets a builder configuration's compute capabilities. Standard TensorRT builds for this
    machine's GPU only. Raises StepError for unknown capabilities, and if this GPU has another capability."""
    if flavour == "standard":
        _check_gpu(names)
        return lambda config: None
    wanted = capabilities(names, trt)

    def set_all(config: Any) -> None:
        config.num_compute_capabilities = len(wanted)
        for index, capability in enumerate(wanted):
            config.set_compute_capability(capability, index)

    return set_all


def _check_gpu(names: Sequence[str]) -> None:
    import torch

    expected = f"expected a GPU of compute capability {', '.join(names)}"
    if not torch.cuda.is_available():
        raise StepError(f"standard TensorRT builds on a GPU, and there is none here; {expected}")
    major, minor = torch.cuda.get_device_capability(0)
    if f"{major}.{minor}" not in names:
        raise StepError(f"standard TensorRT builds for the GPU here, of compute capability {major}.{minor}; {expected}")


def capabilities(names: Sequence[str], trt: Any) -> list[Any]:
    """Return the builder's values for compute capabilities such as "8.9", lowest first. Raises StepError for unknown
    capabilities."""
    found = []
    for name in sorted(names, key=lambda name: [int(part) for part in name.split(".")]):
        value = getattr(trt.ComputeCapability, f"SM{name.replace('.', '')}", None)
        if value is None:
            raise StepError(
                f"{trt.__name__} {trt.__version__} builds nothing for compute capability {name};"
                f" expected one of {', '.join(known_capabilities(trt))}"
            )
        found.append(value)
    return found


def known_capabilities(trt: Any) -> list[str]:
    """Return every compute capability of the builder, as "8.9", lowest first."""
    numbers = sorted(int(name[2:]) for name in dir(trt.ComputeCapability) if name.startswith("SM"))
    return [f"{number // 10}.{number % 10}" for number in numbers]
