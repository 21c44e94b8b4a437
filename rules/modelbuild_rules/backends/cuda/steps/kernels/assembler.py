"""The assembler of kernels: the newest ptxas that Triton contains, for all compute capabilities.

Triton 3.8.0 uses the ptxas of CUDA 12.9 for capabilities below 10.0, Triton 3.9.0 for capabilities below 9.0. The ptxas
of CUDA 12.9 and 13.0 drops the constant of an addition of pairs of 16 bits (`add.s16x2` becomes `VIADD.16x2` with 0),
which LLVM makes of indices of few bits: convolutions of three channels then read wrong weights on a GPU. The ptxas of
CUDA 13.3 and 13.4 is right.
"""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def assembler(capability: int) -> Any:
    """Return the assembler for a capability (90 for 9.0) as Triton's NvidiaTool: a path, and the version of CUDA from
    which Triton derives the version of PTX. Below 10.0 the version comes from Triton's older assembler, whose PTX older
    drivers read. Raises FileNotFoundError if Triton's installation lacks them.
    """
    from triton import knobs

    try:
        newest, older = knobs.nvidia.ptxas_blackwell, knobs.nvidia.ptxas
    except RuntimeError as error:  # the type that means "this kernel does not compile" elsewhere
        raise FileNotFoundError(f"the installation of triton is incomplete: {error}") from error
    return newest if capability >= 100 else knobs.NvidiaTool(newest.path, older.version)
