"""Write the partitions of a program to folders, without duplicates."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelbuild_rules.backend_api.steps.nodes import computing
from modelbuild_rules.backend_api.steps.partition_files import write_partition
from modelbuild_rules.program.steps.lowering.delegation import Delegation
from modelbuild_rules.program.steps.lowering.stack import StackBackend

if TYPE_CHECKING:
    from modelbuild_rules.program.documents import PlannedPartition


class Partitions:
    """Folders p0/, p1/, ... of partitions, numbered in the order in which backends make them."""

    def __init__(self, folder: Path, delegation: Delegation) -> None:
        self._folder = folder
        self._delegation = delegation
        self._changed: dict[str, StackBackend] = {}
        self._ids: dict[tuple[StackBackend, str], str] = {}
        self._nodes: list[int] = []

    def keep(self, program: Any, specs: Sequence[Any]) -> str:
        """Write a partition of the current backend, and its compile specs. Return its id, which equal partitions
        share."""
        backend = self._delegation.current
        id = f"p{len(self._ids)}"
        path = self._folder / id
        write_partition(program, specs, backend.partitioning.annotations, path)
        self._changed |= dict.fromkeys(program.graph_signature.buffers_to_mutate.values(), backend)
        known = self._ids.setdefault((backend, _digest(path)), id)
        if known == id:
            self._nodes.append(sum(1 for _ in computing(program.graph_module)))
        else:
            shutil.rmtree(path)
        self._delegation.record_partition(program, known)
        return known

    def backend(self, id: str) -> StackBackend:
        """Return the backend of a partition."""
        return next(backend for (backend, _), known in self._ids.items() if known == id)

    def common(self) -> dict[str, str]:
        """Return the buffers that partitions change and share with other partitions, each with the memory."""
        memory = {name: each.partitioning.common(each.attributes) for name, each in self._changed.items()}
        return {name: memory[name] for name in sorted(memory) if memory[name]}

    def plan(self) -> list[PlannedPartition]:
        """Return the partitions to compile, for plan.json."""
        return [
            {
                "id": id,
                "entry": backend.number,
                "kind": backend.kind,
                "nodes": nodes,
                "bytes": sum(file.stat().st_size for file in _files(self._folder / id)),
            }
            for ((backend, _), id), nodes in zip(self._ids.items(), self._nodes, strict=True)
        ]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _digest(folder: Path) -> str:
    """Return a digest of the paths and contents of a folder's files."""
    digest = hashlib.sha256()
    for path in _files(folder):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.relative_to(folder).as_posix()} {content}\n".encode())
    return digest.hexdigest()
