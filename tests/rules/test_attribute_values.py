"""Attributes that queries, explanations and provenance print are those of the target."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelbuild.analysis.rules import load_rules
from tests.rules.test_attribute_keys import TARGETS

RULES = load_rules(Path(__file__).parent, ()).by_name
INLINE = {"model": ":model", "stack": [{"type": "xnnpack", "per_op_mode": True}, "portable"], "device": ":cpu"}
GIVEN = [
    *((rule, each) for rule, tables in TARGETS.items() for each in tables.values()),
    ("pte_program", INLINE),
    ("pte_program", {**INLINE, "stack": {"encode": INLINE["stack"], "decode": ":stack"}}),
]


@pytest.mark.parametrize(("rule", "given"), GIVEN, ids=[f"{rule}{n}" for n, (rule, _) in enumerate(GIVEN)])
def test_printed_attributes_are_read_as_the_same_ones(rule: str, given: dict[str, object]) -> None:
    common = {"name", "tags", "visibility", "toolchain", "action_timeout"}
    read = RULES[rule].attrs.model_validate_json
    attrs = read(json.dumps({name: value for name, value in given.items() if name not in common}))
    assert read(json.dumps(attrs.model_dump(mode="json", by_alias=True))) == attrs
