"""Make numerical libraries choose the same kernels on all processors that can run them.

torch, oneDNN, MKL and OpenBLAS choose kernels by the processor's features, and their kernels round differently. To get
the same bytes on every machine that shares results, the libraries are limited to features that every x86-64 server has
had for years. The variables are from the libraries' documentation.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

_AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_CBWR": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
}


def kernels() -> dict[str, str]:
    """Return environment variables that limit the libraries to one set of kernels; none if there is only one set, or if
    the processor lacks the features for it."""
    return dict(_AVX2) if _has_avx2() else {}


def machine() -> str:
    """Return `linux-x86_64-avx2` or `linux-aarch64`: machines with different names may make different bytes."""
    return f"{sys.platform}-{os.uname().machine}" + ("-avx2" if _has_avx2() else "")


@cache
def _has_avx2() -> bool:
    return os.uname().machine == "x86_64" and {"avx2", "fma"} <= _flags(Path("/proc/cpuinfo"))


def _flags(cpuinfo: Path) -> set[str]:
    """Return the feature flags of the first processor; empty if they are unknown."""
    try:
        with cpuinfo.open() as lines:
            return next((set(line.split(":")[1].split()) for line in lines if line.startswith("flags")), set())
    except OSError:
        return set()
