"""The facts about a program in its SBOM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelbuild.actions import DerivedArtifact
from modelbuild.ids import ActionId
from modelbuild_rules.program.contents import program_contents

DELEGATION = {"totals": {"xnnpack": {"partitions": 1, "nodes": 3}}, "partitions": []}


@pytest.mark.parametrize(
    ("calls", "expected"), [(None, "no"), ([], "no"), (["the example inputs", "other values"], "on 2 calls")]
)
def test_it_says_on_how_many_calls_the_program_was_compared(
    tmp_path: Path, calls: list[str] | None, expected: str
) -> None:
    files = {"delegation": DELEGATION, "verified": {"methods": {"forward": {"calls": calls}}}}
    for name, document in files.items():
        (tmp_path / name).write_text(json.dumps(document))
    made = [DerivedArtifact(ActionId.of("//:net", "emit"), name) for name in files]
    contents = program_contents("net.pte", made[0], None if calls is None else made[1])
    reads = [{"": tmp_path / name} for name in files]
    (component,) = contents.components(*reads[: len(contents.reads)])
    assert component.properties == {
        "backend xnnpack": "1 partitions, 3 operators",
        "compared with its model": expected,
    }
