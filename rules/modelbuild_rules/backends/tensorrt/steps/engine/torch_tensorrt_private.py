"""Import torch_tensorrt without a GPU, and list the private names that the steps use.

All of it was checked on torch_tensorrt 2.14.0 (torch-tensorrt-rtx and torch-tensorrt are the same Python code) and
tensorrt_rtx 1.6.1.120.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from unittest.mock import patch

import torch

from modelbuild.step import StepError

CHECKED = "2.14.0"

DISTRIBUTIONS = {"rtx": "torch-tensorrt-rtx", "standard": "torch-tensorrt"}
EXTRAS = {"rtx": "tensorrt-rtx", "standard": "tensorrt"}

PRIVATE = (
    # Replaced while torch_tensorrt is imported without a GPU, and restored afterwards.
    "torch.cuda:get_device_capability",
    "torch.cuda:current_device",
    # Called.
    "torch._export.verifier:load_verifier",
    "torch.fx.passes.shape_prop:_extract_tensor_metadata",
    "torch_tensorrt.dynamo._settings:CompilationSettings.__setstate__",
    "torch_tensorrt.dynamo.conversion._ConverterRegistry:DYNAMO_CONVERTERS.set_compilation_settings",
    "torch_tensorrt.dynamo.conversion._ConverterRegistry:DYNAMO_CONVERTERS.get",
    "torch_tensorrt.dynamo.conversion._ConverterRegistry:ConverterRegistry.qualified_name_or_str",
    "torch_tensorrt.dynamo.conversion._TRTInterpreter:TRTInterpreter._construct_trt_network_def",
    "torch_tensorrt.dynamo.conversion._TRTInterpreter:TRTInterpreter._populate_trt_builder_config",
    "torch_tensorrt.dynamo.conversion._TRTInterpreter:TRTInterpreter.output",
    "torch_tensorrt.dynamo.conversion._conversion:infer_module_output_dtypes",
    "torch_tensorrt.dynamo.lowering:get_decompositions",
    "torch_tensorrt.dynamo.lowering:post_lowering",
    "torch_tensorrt.dynamo.lowering:pre_export_lowering",
    "torch_tensorrt.dynamo.utils:COMPLEX_DTYPES",
    "torch_tensorrt.executorch.backend:TensorRTBackend",
)

INSTANCE = ("builder", "ctx", "_aliased_io", "_cur_node", "_input_names", "_output_names")
"""Attributes of a TRTInterpreter that are read."""

PENDING = "pending_fresh_unbacked_symbols"
"""The attribute of torch's ShapeEnv that is cleared."""


def import_torch_tensorrt(flavour: str) -> Any:
    """Import torch_tensorrt. Raises StepError unless it has the flavour `flavour` and the checked version."""
    distribution = DISTRIBUTIONS[flavour]
    try:
        found = version(distribution)
    except PackageNotFoundError:
        raise StepError(
            f"the package '{distribution}' is not installed; install modelbuild[{EXTRAS[flavour]}]"
        ) from None
    if found != CHECKED:
        raise StepError(f"{distribution} {found} is installed; expected {distribution}=={CHECKED}")
    with _without_gpu():
        import torch_tensorrt
    if torch_tensorrt.ENABLED_FEATURES.tensorrt_rtx != (flavour == "rtx"):
        raise StepError(f"torch_tensorrt is not of the flavour '{flavour}'; expected only '{distribution}' installed")
    return torch_tensorrt


@contextmanager
def _without_gpu() -> Iterator[None]:
    with ExitStack() as stack:
        if not torch.cuda.is_available():
            # Queried on import, for defaults that are never used here.
            stack.enter_context(patch.object(torch.cuda, "get_device_capability", lambda *_: (0, 0)))
            stack.enter_context(patch.object(torch.cuda, "current_device", lambda: 0))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        logging.getLogger("torch_tensorrt").setLevel(logging.ERROR)
        # torch's warnings about its API's use by torch_tensorrt contain the time and the process ID.
        logging.disable(logging.WARNING)
        stack.callback(logging.disable, logging.NOTSET)
        yield
