"""The private names of executorch that the steps for XNNPACK use.

All of it was checked on the version that backend_api/steps/executorch_private.py requires, 1.5.1.
"""

from __future__ import annotations

PRIVATE = (
    # Patched while a program is partitioned or compiled (grouping.py, layouts.py, partitioning.py, patterns.py,
    # progress.py).
    "executorch.backends.xnnpack._passes:XNNPACKPassManager.transform",
    "executorch.backends.xnnpack._passes:_transform",
    "executorch.backends.xnnpack.xnnpack_preprocess:get_node_visitors",
    "executorch.backends.xnnpack.xnnpack_preprocess:serialize_xnnpack_binary",
    "executorch.backends.xnnpack._passes.channels_last_tagged_reshape_pass:ChannelsLastTaggedReshapePass.call",
    "executorch.backends.xnnpack._passes.channels_last_tagged_reshape_pass:"
    "ChannelsLastTaggedReshapePass.memory_sensitive_ops_nchw",
    "executorch.backends.xnnpack.partition.config.xnnpack_config:has_free_unbacked_symbols",
    "executorch.backends.xnnpack.partition.graphs.bilinear_2d:get_graphs_dict",
    "executorch.backends.xnnpack.partition.graphs.sdpa:get_graphs",
    "executorch.exir.backend.canonical_partitioners.group_partitioner:GroupBasedPartitioner._can_merge_partitions",
    "executorch.exir.backend.canonical_partitioners.group_partitioner:_DependencyViewer",
    "executorch.exir.backend.utils:WhyNoPartition.__call__",
    # Called, read or overridden (partitioning.py, layouts.py, reordering.py, shared_values.py, normalization.py,
    # nonfinite.py, large_windows.py, compile.py).
    "executorch.backends.transforms.utils:create_constant_placeholder",
    "executorch.backends.xnnpack._passes.channels_last_tagged_reshape_pass:ChannelsLastTaggedReshapePass.XNN_NHWC_NODE",
    "executorch.backends.xnnpack.partition.config:ALL_PARTITIONER_CONFIGS",
    "executorch.backends.xnnpack.partition.config.gemm_configs:GEMMConfig._detect_precision",
    "executorch.backends.xnnpack.partition.xnnpack_partitioner:XnnpackPartitioner.generate_partitions",
    "executorch.backends.xnnpack.partition.xnnpack_partitioner:XnnpackPartitioner.get_matched_nodes_from_configs",
    "executorch.backends.xnnpack.utils.quant_utils:IS_IMPLICIT_Q_DQ_TAG",
    "executorch.backends.xnnpack.utils.quant_utils:is_dequant",
    "executorch.backends.xnnpack.utils.quant_utils:is_dynamic_qdq",
    "executorch.backends.xnnpack.utils.quant_utils:is_quant",
    "executorch.backends.xnnpack.utils.utils:get_param_tensor",
    "executorch.backends.xnnpack.utils.utils:normalize_pool2d_args",
    "executorch.backends.xnnpack.utils.xnnpack_constants:XNN_MAX_TENSOR_DIMS",
    "executorch.backends.xnnpack.xnnpack_preprocess:XnnpackBackend.preprocess",
    "executorch.exir.backend.canonical_partitioners.config_partitioner:format_target_name",
)
