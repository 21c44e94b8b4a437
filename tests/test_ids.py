"""Ids of configured targets and of actions: texts, and the parts that they are made of."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from modelbuild.ids import ActionId, TargetId
from modelbuild.labels import Label

LABEL = Label("models/a", "net.v-1+@=x")


@pytest.mark.parametrize("device", [None, Label("", "jetson"), "cpu"])
@pytest.mark.parametrize("name", ["export", "compile:p0", "a#b (c): d", ""])
def test_an_id_has_the_parts_that_it_was_made_of(device: object, name: str) -> None:
    target = TargetId.of(LABEL, device)
    action = ActionId.of(target, name)
    assert (target.label, target.configuration) == (str(LABEL), str(device or ""))
    assert (action.owner, action.label, action.name) == (target, str(LABEL), name)
    assert isinstance(action.owner, TargetId)
    assert action.kind == name.partition(":")[0]


def test_ids_are_written_as_users_see_them() -> None:
    target = TargetId.of("//m:a", "//:jetson")
    assert target == "//m:a (//:jetson)"
    assert ActionId.of(target, "compile:p0") == "//m:a (//:jetson)#compile:p0"
    assert TargetId.of("//m:a", None) == "//m:a"
    assert json.dumps({ActionId("//m:a#b"): target}) == '{"//m:a#b": "//m:a (//:jetson)"}'


def test_the_id_of_a_target_is_that_of_an_action_without_a_name() -> None:
    subject = ActionId(TargetId.of("//m:a", "cpu"))
    assert (subject.label, subject.name) == ("//m:a", "")


def test_no_other_module_takes_an_id_apart(repository: Path) -> None:
    apart = re.compile(r"""(partition|split)\(\s*(['"])( \(|#)\2""")
    found = [
        f"{path.relative_to(repository)}: {line.strip()}"
        for top in ("modelbuild", "rules/modelbuild_rules")
        for path in sorted((repository / top).rglob("*.py"))
        for line in path.read_text().splitlines()
        if apart.search(line)
    ]
    # Addresses and names of GPUs have these separators too.
    other = ("modelbuild/workspace/remote_address.py", "modelbuild/workspace/remote_table.py", "modelbuild/ids.py")
    assert [line for line in found if not line.startswith(other)] == []
