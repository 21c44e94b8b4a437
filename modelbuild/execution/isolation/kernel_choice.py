"""Which kernels numerical libraries choose for a processor: the same ones on all that can run them.

torch, oneDNN, MKL and OpenBLAS choose by what the processor offers, and their kernels round differently. So that an
action makes the same bytes on every machine that shares results, they are held to what every x86-64 server has had for
years. The variables are those of the libraries' documentation.
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
    """Environment variables that hold the libraries to one set of kernels; none where there is only one, or where the
    processor lacks what they take."""
    return dict(_AVX2) if _has_avx2() else {}


def machine() -> str:
    """`linux-x86_64-avx2`, `linux-aarch64`: machines that this tells apart may make different bytes."""
    return f"{sys.platform}-{os.uname().machine}" + ("-avx2" if _has_avx2() else "")


@cache
def _has_avx2() -> bool:
    return os.uname().machine == "x86_64" and {"avx2", "fma"} <= _flags(Path("/proc/cpuinfo"))


def _flags(cpuinfo: Path) -> set[str]:
    """Return the feature flags of the first processor; none where they are not known."""
    try:
        with cpuinfo.open() as lines:
            return next((set(line.split(":")[1].split()) for line in lines if line.startswith("flags")), set())
    except OSError:
        return set()
