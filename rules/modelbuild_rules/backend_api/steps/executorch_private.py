"""The private names of executorch that the steps use, and the version that they were checked on. Each backend's folder
lists its own private names."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from modelbuild.step import StepError

CHECKED = "1.5.1"

PRIVATE = (
    # Patched while a program is lowered (patches/).
    "executorch.exir.backend.backend_api:create_exported_program_from_submodule",
    "executorch.exir.backend.backend_api:create_submodule_from_nodes",
    "executorch.exir.backend.backend_details:BackendDetails.preprocess",
    "executorch.exir.backend.backend_details:BackendDetails.preprocess_multimethod",
    "executorch.exir.lowered_backend_module:legalize_graph",
    "executorch.exir.pass_base:FakeTensorMode",
    "executorch.exir.pass_base:_ExportPassBase._fx",
    "executorch.exir.passes.dim_order_ops_registry:get_memory_format",
    "executorch.exir.passes.memory_format_ops_pass:DimOrderOpsMap",
    "executorch.exir.passes.memory_format_ops_pass:get_dim_order",
    "executorch.exir.passes.replace_view_copy_with_view_pass:dim_order_from_stride",
    "executorch.exir.passes.scalar_to_tensor_pass:ScalarToTensorPass.call_operator",
    "executorch.exir.program._program:edge_to_executorch_passes",
    "executorch.exir.tensor:dim_order_from_stride",
    # Called.
    "executorch.backends.transforms.utils:create_constant_placeholder",
    "executorch.backends.transforms.utils:delete_constant_placeholder",
    "executorch.exir._serialize._named_data_store:NamedDataStoreOutput",
    "executorch.exir._serialize.data_serializer:DataEntry",
    "executorch.exir.capture._config:EdgeCompileConfig._check_ir_validity",
    "executorch.exir.dialects.edge._ops:FunctionDtypeConstraint.validate",
    "executorch.exir.dialects.edge._ops:EdgeOpOverload.to_out_variant",
    "executorch.exir.delegate:executorch_call_delegate",
    "executorch.exir.graph_module:get_control_flow_submodules",
    "executorch.exir.lowered_backend_module:LoweredBackendModule.buffer",
    "executorch.extension.flat_tensor.serialize.serialize:FlatTensorSerializer.deserialize",
    "executorch.extension.pybindings._C:_get_operator_names",
    "executorch.extension.pybindings._C:_load_for_executorch_from_buffer",
)


def require() -> None:
    """Raise StepError unless the checked version of executorch is installed."""
    try:
        found = version("executorch")
    except PackageNotFoundError:
        raise StepError(f"executorch is not installed; expected executorch=={CHECKED}") from None
    if found != CHECKED:
        raise StepError(f"executorch {found} is installed; expected executorch=={CHECKED}")


def name() -> str:
    """Return the name of executorch, for messages."""
    return f"ExecuTorch {CHECKED}"


def bindings() -> Any:
    """Return the compiled Python bindings. Raises StepError as require() does."""
    require()
    from executorch.extension.pybindings import _C

    return _C
