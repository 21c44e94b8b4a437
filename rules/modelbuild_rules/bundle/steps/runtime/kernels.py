"""Kernel libraries of a program's own workspace: inputs `kernels.<name>` of a step, each a library and its
description."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from modelbuild.step import Step

_PREFIX = "kernels."


@dataclass(frozen=True)
class KernelFiles:
    """A compiled kernel library: its files, its operators, and the oldest glibc that it loads on, as "2.28"."""

    library: Path
    description: Path
    operators: Sequence[str]
    glibc: str

    def copy(self, folder: Path) -> list[str]:
        """Copy the files into the folder `lib` of a runtime; return their paths there."""
        (folder / "lib").mkdir(parents=True, exist_ok=True)
        for path, mode in ((self.library, 0o755), (self.description, 0o644)):
            target = folder / "lib" / path.name
            shutil.copyfile(path, target)
            target.chmod(mode)
        return [f"lib/{path.name}" for path in (self.library, self.description)]


def kernel_files(step: Step) -> Mapping[str, KernelFiles]:
    """Return the kernel libraries of a step, by name."""
    found = {}
    for name, paths in step.inputs.items():
        if name.startswith(_PREFIX):
            library, description = paths
            described = json.loads(description.read_bytes())
            found[name.removeprefix(_PREFIX)] = KernelFiles(
                library, description, described["operators"], described["glibc"]
            )
    return found
