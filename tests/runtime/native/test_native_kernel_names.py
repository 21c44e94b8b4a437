"""The kernels that lowering counts on are in the C++ runtime, which has another version of ExecuTorch."""

from __future__ import annotations

from pathlib import Path

from modelbuild_rules.program.steps.lowering.portable import kernel_names


def test_the_cpp_runtime_has_each_kernel_that_lowering_counts_on(native: Path) -> None:
    libraries = ("executorch", "executorch_kernels_optimized", "executorch_kernels_quantized", "modelbuild_kernels")
    code = b"".join((native / f"lib/lib{name}.so").read_bytes() for name in libraries)
    names = kernel_names()
    assert len(names) > 200
    assert [name for name in sorted(names) if name.encode() + b"\0" not in code] == []
