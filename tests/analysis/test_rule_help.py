"""The help of rules against their attribute schemas, and examples of targets against the rules."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import pytest

from modelbuild.analysis.json_schema import attribute_schemas
from modelbuild.analysis.rule_help import describe_rule, minimal_target
from modelbuild.analysis.rules import load_rules
from modelbuild.analysis.validate import validate
from modelbuild.api import Attrs, Dep, Duration, LabelOf, Provider, Rule, Size, Source, Sources
from modelbuild.errors import Location
from modelbuild.loading.parse import parse_package
from modelbuild.workspace.toml_document import Document


@pytest.fixture(scope="module")
def rules(repository: Path) -> Mapping[str, Rule]:
    return load_rules(repository, []).by_name


def check_target(rule: Rule, text: str) -> None:
    """Raise LoadingError unless the text declares one target of the rule with valid attributes."""
    package = parse_package(Document("BUILD.toml", text), tomllib.loads(text), "", [rule.name])
    (target,) = package.targets.values()
    validate(rule.name, target.label.name, rule.attrs, target.attributes, lambda path: Location("BUILD.toml", 1, 1))


def test_every_built_in_rule_has_a_valid_example(rules: Mapping[str, Rule]) -> None:
    for rule in rules.values():
        assert rule.example.startswith(f"[[{rule.name}]]\n")
        assert describe_rule(rule).example == rule.example
        check_target(rule, rule.example)


def test_the_help_of_a_rule_has_every_attribute_with_its_meaning(rules: Mapping[str, Rule]) -> None:
    for name, rule in rules.items():
        described = describe_rule(rule)
        by_rule, definitions = attribute_schemas({name: rule})
        tables = {table.name: table for table in described.tables}
        for table, schema in ((described.attributes, by_rule[name]), *((tables[n], definitions[n]) for n in tables)):
            assert table.about
            assert {row.name for row in table.attributes} == set(schema["properties"])
            assert {row.name for row in table.attributes if row.required} == set(schema.get("required", ()))
            assert all(row.about and row.type for row in table.attributes), table.name


class Made(Provider):
    made_by = ("pte_program",)


Program = Annotated[Dep, LabelOf(Made)]


class Inner(Attrs):
    """Inside."""

    label: Dep
    """A label."""


class Outer(Attrs):
    """The first
    paragraph.

    The second.
    """

    kind: Literal["a", "b", "c"]
    sizes: tuple[int | str, ...]
    span: tuple[float, float]
    inner: tuple[Inner, ...]
    program: dict[str, Program]
    files: Sources
    file: Source | None = None
    room: Size = 1 << 30
    limit: Duration | None = None
    count: int = 3
    on: bool = True


def test_types_and_defaults_of_attributes() -> None:
    rows = describe_rule(Rule("outer", Outer, lambda ctx: (), "here")).attributes
    assert rows.about == "The first paragraph.\n\nThe second."
    assert {row.name: (row.type, row.default) for row in rows.attributes} == {
        "kind": ('"a", "b" or "c"', ""),
        "sizes": ("list of (integer or string)", ""),
        "span": ("[number, number]", ""),
        "inner": ("list of table Inner", ""),
        "program": ("table of label of a pte_program by name", ""),
        "files": ("list of file or table Glob", ""),
        "file": ("file", ""),
        "room": ("size", '"1.0 GiB"'),
        "limit": ("duration", ""),
        "count": ("integer", "3"),
        "on": ("boolean", "true"),
    }
    assert {row.name for row in rows.attributes if not row.required} == {"file", "room", "limit", "count", "on"}


def test_a_rule_without_an_example_gets_one_of_its_required_attributes() -> None:
    rule = Rule("outer", Outer, lambda ctx: (), "here")
    assert describe_rule(rule).example == minimal_target(rule)
    check_target(rule, minimal_target(rule))
    assert tomllib.loads(minimal_target(rule)) == {
        "outer": [
            {
                "name": "my_outer",
                "kind": "a",
                "sizes": [1],
                "span": [1, 1],
                "inner": [{"label": ":label"}],
                "program": {"name": ":program"},
                "files": ["files"],
            }
        ]
    }
