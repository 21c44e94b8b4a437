"""The assembler of kernels: the newest ptxas that Triton contains, for all compute capabilities.

Triton 3.8.0 uses that of CUDA 12.9 for capabilities below 10.0, Triton 3.9.0 for those below 9.0. It and CUDA 13.0's
drop the constant of an addition of pairs of 16 bits (`add.s16x2` becomes `VIADD.16x2` with 0), which LLVM makes of
indices of few bits: convolutions of three channels then read wrong weights on a GPU. CUDA 13.3's and 13.4's are right.
"""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def assembler(capability: int) -> Any:
    """Return the assembler for a capability (90 for 9.0) as Triton's NvidiaTool: a path, and the version of CUDA from
    which Triton derives the version of PTX. Below 10.0 the version is that of Triton's older assembler, whose PTX older
    drivers read.
    """
    from triton import knobs

    newest = knobs.nvidia.ptxas_blackwell
    if capability >= 100:
        return newest
    return knobs.NvidiaTool(newest.path, knobs.nvidia.ptxas.version)
