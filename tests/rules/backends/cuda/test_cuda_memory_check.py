"""The emulator fails on accesses that fail on a GPU: outside of memory, or not aligned as the compiled kernel needs."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

HERE = Path(__file__).parent
START, SIZE = 0x1000, 37 * 4
ROWS = np.arange(48) % 37

PTX = """
	.file	1 "/caches" "kernel.py"
	.file	2 "/torch/triton_helpers.py"
	.loc	1 20 5
	// begin inline asm
	mov.u32 %r1, 0x0;
	.loc	1 21 5
	mov.u32 %r2, 0x0;
	@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
	@%p1 ld.global.L1::evict_last.v2.b64 { %rd5, %rd6 }, [ %rd1 + 16 ];
	// end inline asm
	.loc	1 24 5
	cp.async.ca.shared.global [ %r1 + 0 ], [ %rd2 + 0 ], 0x8, %r9;
	cp.async.ca.shared.global [ %r1 + 0 ], [ %rd2 + 0 ], 0x4, %r9;
	.loc	1 21 5
	@%p1 ld.global.b16 { %rs1 }, [ %rd1 + 0 ];
	.loc	2 90 1, function_name $L__info_string0, inlined_at 1 22 9
	cp.async.cg.shared.global [ %r1 + 0 ], [ %rd2 + 0 ], 0x10, %r9;
	.loc	1 0 0
	@%p2 st.global.v4.b32 [ %rd7 + 0 ], { %r1, %r2, %r3, %r4 };
	.loc	1 23 5
	atom.global.gpu.acq_rel.add.f32 %r1, [ %rd1 + 0 ], %r2;
	ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r5];
"""


@pytest.fixture
def memory_check() -> ModuleType:
    from tests.rules.backends.cuda.conftest import load

    return load(HERE / "emulator/memory_check.py")


def accessed(memory_check: ModuleType, elements: np.ndarray, mask: np.ndarray, width: int) -> None:
    """Check an access of float32 in a kernel whose instructions are of a width in bytes."""
    allocations = np.array([START], np.uint64), np.array([START + SIZE], np.uint64)
    check = memory_check.MemoryCheck(lambda: allocations)
    check.start(__file__, {str(line): width for line in range(1000)})
    check._check(START + 4 * elements.astype(np.int64), mask, 4, True)


def test_widths_of_accesses_are_those_of_instructions(memory_check: ModuleType) -> None:
    assert memory_check.widths(PTX, "kernel.py") == {20: 16, 21: 2, 22: 16, 23: 4, 24: 4}


def test_rows_that_begin_again_are_read_one_by_one(memory_check: ModuleType) -> None:
    accessed(memory_check, ROWS, np.ones(48, bool), 4)


def test_rows_that_begin_again_cannot_be_read_in_vectors(memory_check: ModuleType) -> None:
    """The last vector of 37 rows reads beyond them, and those that follow are at odd addresses."""
    with pytest.raises(memory_check.BadAccess, match=r"memory_check\.py:\d+: compiled to accesses of 16 bytes"):
        accessed(memory_check, ROWS, np.ones(48, bool), 16)
    accessed(memory_check, ROWS[:36], np.ones(36, bool), 16)


def test_an_unaligned_vector_is_an_error(memory_check: ModuleType) -> None:
    with pytest.raises(memory_check.BadAccess, match="not contiguous, aligned and masked alike"):
        accessed(memory_check, np.arange(1, 33), np.ones(32, bool), 16)


def test_a_vector_has_one_mask(memory_check: ModuleType) -> None:
    with pytest.raises(memory_check.BadAccess, match="masked alike"):
        accessed(memory_check, np.arange(32), np.arange(32) < 30, 16)
    accessed(memory_check, np.arange(32), np.arange(32) < 28, 16)


@pytest.mark.parametrize("element", [-1, 37])
def test_an_element_outside_of_memory_is_an_error_unless_masked(memory_check: ModuleType, element: int) -> None:
    with pytest.raises(memory_check.BadAccess, match="1 of 1 accesses are outside of memory"):
        accessed(memory_check, np.array([element]), np.array([True]), 4)
    accessed(memory_check, np.array([element]), np.array([False]), 4)


def test_vectors_may_run_along_any_dimension(memory_check: ModuleType) -> None:
    """Rows 0 to 2 of 4 columns, and the same transposed."""
    tile = np.arange(12).reshape(3, 4)
    for elements in (tile, tile.T):
        accessed(memory_check, elements, np.ones_like(elements, bool), 16)
