"""docs/reference/build-files.md against the loaded rules, and keys of MODELBUILD.toml.

The attributes are in docs/reference/rules.md, which tests/docs/test_reference_pages.py compares with the rules.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from modelbuild.analysis.json_schema import attribute_schemas
from modelbuild.analysis.rule_help import describe_rule
from modelbuild.analysis.rules import load_rules
from modelbuild.api import Rule
from modelbuild.loading.package import ENGINE_ATTRIBUTES, OTHER_TABLES
from modelbuild.workspace.workspace import load_workspace


@pytest.fixture(scope="module")
def text(repository: Path) -> str:
    return (repository / "docs/reference/build-files.md").read_text()


@pytest.fixture(scope="module")
def rules(repository: Path) -> Mapping[str, Rule]:
    return load_rules(repository, []).by_name


def test_sections_are_rules_and_leave_the_attributes_to_the_generated_page(
    text: str, rules: Mapping[str, Rule]
) -> None:
    below = text.partition("\n## Rules\n")[2]
    headings = re.findall(r"^### (\w+)$", below, re.MULTILINE)
    assert len(headings) > 5
    assert len(headings) == len(set(headings))
    assert set(headings) <= set(rules)
    assert "](rules.md)" in below
    assert "| attribute |" not in below


def test_patterns_of_files(text: str, rules: Mapping[str, Rule]) -> None:
    labels = text.partition("### Labels")[2].partition("\n### ")[0]
    glob = attribute_schemas({"filegroup": rules["filegroup"]})[1]["Glob"]
    assert all(re.search(rf"\b{name} = ", labels) for name in glob["properties"])


def test_attributes_of_every_target(text: str) -> None:
    section = text.partition("### Attributes of every target\n")[2].partition("\n\n-")[0]
    assert sorted(re.findall(r"`(\w+)`", section)) == sorted(ENGINE_ATTRIBUTES)


def blocks(text: str) -> list[str]:
    return re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_workspace_file_is_one(text: str, tmp_path: Path) -> None:
    (tmp_path / "MODELBUILD.toml").write_text(blocks(text)[0])
    config = load_workspace(tmp_path, {}).config
    assert str(config.default_device) == "//devices:orin"
    assert config.cache_size == 20 << 30


def test_examples_have_the_attributes_that_they_need(text: str, rules: Mapping[str, Rule]) -> None:
    known = {name: describe_rule(rule).attributes.attributes for name, rule in rules.items()}
    for block in blocks(text)[1:]:
        for rule, targets in tomllib.loads(block).items():
            for target in targets if rule not in OTHER_TABLES else ():
                required = {each.name for each in known[rule] if each.required}
                names = {each.name for each in known[rule]} | set(ENGINE_ATTRIBUTES)
                assert required <= set(target) <= names, block
