"""Tests that the tables of guarantees in docs/explanation/guarantees.md name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent


def test_every_guarantee_names_tests_that_exist() -> None:
    page = (TESTS.parent / "docs/explanation/guarantees.md").read_text()
    rows = re.findall(r"^\| (?!guarantee|---)([^|]*) \| ([^|]*) \|$", page, re.MULTILINE)
    assert len(rows) == page.count("\n|") - 2 * page.count("\n| ---")
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
