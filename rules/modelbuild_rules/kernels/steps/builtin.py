"""The operators of modelbuild's own kernel library, which the C++ runtime contains. Its sources are in kernels/cpp."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modelbuild_rules.program.documents import ManifestKernels

LIBRARY = "modelbuild_kernels"

OPERATORS = frozenset(
    {
        "aten::_embedding_bag.out",
        "aten::_embedding_bag_forward_only.out",
        "aten::_linalg_det.result",
        "aten::_linalg_slogdet.sign",
        "aten::_linalg_solve_ex.result",
        "aten::_unique2.out",
        "aten::adaptive_max_pool2d.out",
        "aten::avg_pool3d.out",
        "aten::bincount.out",
        "aten::bucketize.Tensor_out",
        "aten::cholesky_inverse.out",
        "aten::cholesky_solve.out",
        "aten::copysign.out",
        "aten::cummax.out",
        "aten::cummin.out",
        "aten::cumprod.out",
        "aten::digamma.out",
        "aten::erfc.out",
        "aten::erfinv.out",
        "aten::frexp.Tensor_out",
        "aten::grid_sampler_3d.out",
        "aten::histc.out",
        "aten::i0.out",
        "aten::kthvalue.values",
        "aten::lgamma.out",
        "aten::linalg_cholesky_ex.L",
        "aten::linalg_inv_ex.inverse",
        "aten::linalg_lu.out",
        "aten::linalg_lu_factor_ex.out",
        "aten::linalg_lu_solve.out",
        "aten::linalg_qr.out",
        "aten::linalg_solve_triangular.out",
        "aten::logcumsumexp.out",
        "aten::lu_unpack.out",
        "aten::max_pool3d_with_indices.out",
        "aten::median.dim_values",
        "aten::mode.values",
        "aten::nextafter.out",
        "aten::scatter_reduce.two_out",
        "aten::searchsorted.Tensor_out",
        "aten::signbit.out",
        "aten::sort.values",
        "aten::sort.values_stable",
        "aten::special_i0e.out",
        "aten::triangular_solve.X",
        "aten::tril_indices.out",
        "aten::triu_indices.out",
        "aten::unique_consecutive.out",
        "aten::unique_dim.out",
        "modelbuild::gru.out",
        "modelbuild::lstm.out",
        "modelbuild::rnn.out",
        "modelbuild_kernels::batched_nms.out",
        "modelbuild_kernels::multiscale_roi_align.out",
        "torchvision::deform_conv2d.out",
        "torchvision::nms.out",
        "torchvision::roi_align.out",
    }
)
"""Operators that ExecuTorch 1.5.1 has no kernel for: those of kernels/cpp/modelbuild_kernels.kernels.json."""


def needed(operators: Iterable[str]) -> list[ManifestKernels]:
    """Return the kernel libraries that a program with these operators needs, as its manifest lists them."""
    own = sorted(OPERATORS.intersection(operators))
    return [{"library": LIBRARY, "operators": own}] if own else []
