"""What writes a product's large result in another order, and operands of equal values, are not fused into products."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import sympy
from torch._inductor.virtualized import V

from modelbuild_rules.backends.cuda.steps.generate import epilogues

BATCH, ROW, COLUMN = sympy.symbols("batch row column")
ROWS_FIRST = BATCH * 320 * 4096 + ROW * 320 + COLUMN
COLUMNS_FIRST = BATCH * 320 * 4096 + COLUMN * 4096 + ROW


def operator(written: Any, columns: int = 320) -> Any:
    """Return an operator that reads `product` row by row, and writes elsewhere."""
    body = SimpleNamespace(
        iter_vars=[BATCH, ROW, COLUMN],
        var_ranges={BATCH: 8, ROW: 4096, COLUMN: columns},
        get_all_read_expr=lambda name: [ROWS_FIRST] if name == "product" else [],
        get_write_exprs=lambda: [written],
    )
    node = SimpleNamespace(get_numel=lambda: 8 * 4096 * columns, get_dtype=lambda: SimpleNamespace(itemsize=2))
    return SimpleNamespace(get_nodes=lambda: [SimpleNamespace(_body=body, node=node)], is_template=lambda: False)


@pytest.mark.parametrize(
    ("template", "written", "columns", "large", "fused"),
    [
        (True, COLUMNS_FIRST, 320, True, False),
        (True, ROWS_FIRST, 320, True, True),
        (True, COLUMNS_FIRST, 320, False, True),
        (False, COLUMNS_FIRST, 320, True, True),
        (True, BATCH * 4096 + ROW, 1, True, True),  # a single column
    ],
)
def test_fused_operators(
    template: bool, written: Any, columns: int, large: bool, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epilogues, "LARGE", 2 * 8 * 4096 * columns + (not large))
    producer = SimpleNamespace(is_template=lambda: template, get_buffer_names=lambda: {"product"})
    graph = SimpleNamespace(sizevars=SimpleNamespace(optimization_hint=int))
    asked = []
    allowed = epilogues.apart(lambda *given: bool(asked.append(given)) or True).__func__
    with V.set_graph_handler(graph):
        assert allowed("scheduler", producer, operator(written, columns), 7) is fused
    assert bool(asked) is fused


@pytest.mark.parametrize(
    ("template", "reads", "fused"),
    [
        (True, [ROWS_FIRST], True),
        (True, [sympy.Integer(0), ROW], True),
        (True, [], False),  # zeros
        (True, [sympy.Integer(0)], False),  # a number
        (False, [], True),
    ],
)
def test_operands_that_are_fused(template: bool, reads: list[Any], fused: bool) -> None:
    body = SimpleNamespace(iter_vars=[ROW, COLUMN], get_read_exprs=lambda: reads)
    operand = SimpleNamespace(get_nodes=lambda: [SimpleNamespace(_body=body)], is_template=lambda: False)
    allowed = epilogues.apart(lambda *_: True).__func__
    assert allowed("scheduler", operand, SimpleNamespace(is_template=lambda: template), 7) is fused
