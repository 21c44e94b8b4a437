"""Tests that the table of guarantees in docs/explanation/guarantees.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent


def test_every_guarantee_names_tests_that_exist() -> None:
    table = (TESTS.parent / "docs/explanation/guarantees.md").read_text()
    rows = re.findall(r"^\| (?!guarantee|---)([^|]*) \| ([^|]*) \| [^|]+ \|$", table, re.MULTILINE)
    assert len(rows) == table.count("\n|") - 2
    lacking = []
    for guarantee, cell in rows:
        folder = ""
        names = re.findall(r"`([^`]+\.py)`", cell)
        for name in names:
            folder = name.rpartition("/")[0] or folder
            path = name.removeprefix("tests/") if "/" in name else f"{folder}/{name}"
            if not list(TESTS.glob(path)):
                lacking.append(name)
        assert names, guarantee
    assert lacking == []
