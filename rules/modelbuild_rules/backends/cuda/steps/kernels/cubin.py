"""What a cubin says of itself: the registers of its kernel, and what it spills."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from tempfile import NamedTemporaryFile

_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) .*?LOCAL:(\d+)")
_ELF = re.compile(r"^ELF file\s+\d+: .*?(sm_\w+)\.cubin$", re.MULTILINE)


def resources(cubin: bytes) -> tuple[int, int]:
    """Registers and bytes spilled to memory, of each thread of a cubin's one kernel."""
    with NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        found = _USAGE.search(_cuobjdump("-res-usage", Path(file.name)))
    if found is None:
        raise ValueError("a cubin says nothing of its registers")
    registers, stack, local = map(int, found.groups())
    return registers, stack + local


def architectures(image: Path) -> set[str]:
    """The architectures (as "sm_86") that a fat binary holds SASS for."""
    return set(_ELF.findall(_cuobjdump("-lelf", image)))


def _cuobjdump(option: str, file: Path) -> str:
    import triton

    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    return subprocess.run([tool, option, file], capture_output=True, text=True, check=True).stdout
