"""Read register use, spills and architectures from cubins and fat binaries."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from tempfile import NamedTemporaryFile

_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) .*?LOCAL:(\d+)")
_ELF = re.compile(r"^ELF file\s+\d+: .*?(sm_\w+)\.cubin$", re.MULTILINE)


def resources(cubin: bytes) -> tuple[int, int]:
    """Return the registers and the bytes spilled to memory per thread of a cubin's only kernel."""
    with NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        found = _USAGE.search(cuobjdump("-res-usage", Path(file.name)))
    if found is None:
        raise ValueError("cuobjdump reports no register use for a cubin")
    registers, stack, local = map(int, found.groups())
    return registers, stack + local


def architectures(image: Path) -> set[str]:
    """Return the architectures (as "sm_86") for which a fat binary contains SASS."""
    return set(_ELF.findall(cuobjdump("-lelf", image)))


def cuobjdump(option: str, file: Path) -> str:
    import triton

    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    return subprocess.run([tool, option, file], capture_output=True, text=True, check=True).stdout
