"""The private names of executorch that the steps use, and the versions that they were checked on. Each backend's folder
lists its own."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from modelbuild.step import StepError

# The compiled Python bindings in each version that was checked.
CHECKED = {
    "1.4.1": "executorch.extension.pybindings._portable_lib",
    "1.5.1": "executorch.extension.pybindings._C",
}

PRIVATE = (
    # Patched while a program is lowered (patches/).
    "executorch.exir.backend.backend_api:create_exported_program_from_submodule",
    "executorch.exir.backend.backend_api:create_submodule_from_nodes",
    "executorch.exir.backend.backend_details:BackendDetails.preprocess",
    "executorch.exir.backend.backend_details:BackendDetails.preprocess_multimethod",
    "executorch.exir.pass_base:_ExportPassBase._fx",
    "executorch.exir.passes.dim_order_ops_registry:get_memory_format",
    "executorch.exir.passes.memory_format_ops_pass:get_dim_order",
    "executorch.exir.passes.replace_view_copy_with_view_pass:dim_order_from_stride",
    "executorch.exir.program._program:edge_to_executorch_passes",
    "executorch.exir.tensor:dim_order_from_stride",
    # Called.
    "executorch.exir._serialize._named_data_store:NamedDataStoreOutput",
    "executorch.exir._serialize.data_serializer:DataEntry",
    "executorch.exir.capture._config:EdgeCompileConfig._check_ir_validity",
    "executorch.exir.dialects.edge._ops:FunctionDtypeConstraint.validate",
    "executorch.exir.dialects.edge._ops:EdgeOpOverload.to_out_variant",
    "executorch.exir.delegate:executorch_call_delegate",
    "executorch.exir.graph_module:get_control_flow_submodules",
    "executorch.exir.lowered_backend_module:LoweredBackendModule.buffer",
    "executorch.extension.flat_tensor.serialize.serialize:FlatTensorSerializer.deserialize",
    # Imported without the packages around it (program/steps/linking/flatbuffer.py).
    "executorch.exir._serialize.generated.executorch_flatbuffer.Program:ProgramT.InitFromPackedBuf",
    "executorch.exir._serialize.generated.executorch_flatbuffer.Program:ProgramT.Pack",
)

FILES = (
    "data/bin/flatc",
    "extension/flat_tensor/serialize/flat_tensor.fbs",
    "extension/flat_tensor/serialize/scalar_type.fbs",
)

# Called, of the module that bindings() returns.
BINDINGS = ("_get_operator_names", "_load_for_executorch_from_buffer")


def require() -> str:
    """Return the version of the installed executorch. Raises StepError for one that was not checked."""
    expected = " or ".join(f"executorch=={each}" for each in CHECKED)
    try:
        found = version("executorch")
    except PackageNotFoundError:
        raise StepError(f"executorch is not installed; expected {expected}") from None
    if found not in CHECKED:
        raise StepError(f"executorch {found} is installed; expected {expected}")
    return found


def name() -> str:
    """Return the name of the installed executorch, for messages."""
    return f"ExecuTorch {version('executorch')}"


def bindings() -> Any:
    """Return the compiled Python bindings, with the names in BINDINGS. Raises StepError as require() does."""
    return import_module(CHECKED[require()])
