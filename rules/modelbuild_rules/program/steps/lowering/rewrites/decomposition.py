"""Decompose a program only where that changes it.

torch traces the whole program again for each table of decompositions, which takes seconds, and minutes for a program
with hundreds of sizes that depend on values. executorch uses three tables; often only one table changes anything.

torch.export.ExportedProgram.run_decompositions is patched temporarily. Checked on torch 2.14.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.export import ExportedProgram

_FUNCTIONAL = "modelbuild_functional"
"""A key of a graph module's meta, which torch copies to the graph modules made from it."""

_SAME = (torch.ops.aten.sym_size.int,)
"""Operators that tables contain and that stay unchanged."""


def all_nodes(module: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
    """Yield the nodes of a graph module and of the branches of control flow in it."""
    for each in module.modules():
        if isinstance(each, torch.fx.GraphModule):
            yield from each.graph.nodes


def decomposed(program: ExportedProgram, table: Mapping[Any, Callable[..., Any]]) -> ExportedProgram:
    """Return a program of operators that change no argument, with the decompositions of a table; the given program if
    it is such a program already."""
    if _FUNCTIONAL in program.graph_module.meta and not _uses(program, table):
        return program
    return traced_again(program, table)


def traced_again(program: ExportedProgram, table: Mapping[Any, Callable[..., Any]] | None = None) -> ExportedProgram:
    """Return such a program whose types and sizes are computed from its inputs."""
    made = program.run_decompositions(dict(table or {}))
    made.graph_module.meta[_FUNCTIONAL] = True
    return made


@contextmanager
def without_repetition() -> Iterator[None]:
    """Let run_decompositions return the program itself, while the context lasts, if no operator needs a decomposition.

    executorch changes the results of tables that are not empty, so they are returned only if made in the context.
    """
    run = ExportedProgram.run_decompositions
    made: list[ExportedProgram] = []

    def run_decompositions(
        program: ExportedProgram, decomp_table: Mapping[Any, Any] | None = None, *rest: Any, **options: Any
    ) -> ExportedProgram:
        if decomp_table is not None and not _uses(program, decomp_table):
            again = any(program is each for each in made)
            if again or (not decomp_table and _FUNCTIONAL in program.graph_module.meta):
                return program
        result = run(program, decomp_table, *rest, **options)
        made.append(result)
        return result

    with patch.object(ExportedProgram, "run_decompositions", run_decompositions):
        yield


def _uses(program: ExportedProgram, table: Mapping[Any, Any]) -> bool:
    """Return whether a program has an operator that a table decomposes."""
    return any(node.target in table and node.target not in _SAME for node in all_nodes(program.graph_module))
