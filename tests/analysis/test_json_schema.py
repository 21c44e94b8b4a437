"""The JSON Schema of BUILD.toml: accepted and refused tables, by a validator of its keywords."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modelbuild.analysis.json_schema import DRAFT, build_file_schema
from modelbuild.analysis.rules import load_rules
from modelbuild.api import Attrs, Rule, Source
from modelbuild.loading.package import ENGINE_ATTRIBUTES

_TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}
_ABOUT = {"$schema", "title", "description", "default", "definitions"}


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def errors(schema: Any, value: Any, top: Any, path: str = "") -> Iterator[str]:
    """Validate by draft 7, as far as these schemas use it. An unknown keyword fails the test."""
    if isinstance(schema, bool):
        if not schema:
            yield f"{path}: nothing allowed"
        return
    for word, said in schema.items():
        if word in _ABOUT:
            continue
        if word == "$ref":
            assert said.startswith("#/definitions/")
            yield from errors(top["definitions"][said.removeprefix("#/definitions/")], value, top, path)
        elif word == "type":
            if not any(_is(value, kind) for kind in ([said] if isinstance(said, str) else said)):
                yield f"{path}: not {said}"
        elif word in ("anyOf", "oneOf"):
            if all(any(errors(branch, value, top)) for branch in said):
                yield f"{path}: none of {word}"
        elif word == "enum":
            if value not in said:
                yield f"{path}: not one of {said}"
        elif word == "const":
            if value != said:
                yield f"{path}: not {said}"
        elif isinstance(value, dict) and word == "properties":
            for key in said.keys() & value.keys():
                yield from errors(said[key], value[key], top, f"{path}/{key}")
        elif isinstance(value, dict) and word == "required":
            yield from (f"{path}: lacks {key}" for key in said if key not in value)
        elif isinstance(value, dict) and word == "additionalProperties":
            for key in value.keys() - schema.get("properties", {}).keys():
                yield from errors(said, value[key], top, f"{path}/{key}")
        elif isinstance(value, dict) and word == "minProperties":
            if len(value) < said:
                yield f"{path}: too few"
        elif isinstance(value, list) and word == "items":
            each = said if isinstance(said, list) else [said] * len(value)
            for index, (item, one) in enumerate(zip(value, each, strict=False)):
                yield from errors(one, item, top, f"{path}/{index}")
        elif isinstance(value, list) and word in ("minItems", "maxItems"):
            if len(value) < said if word == "minItems" else len(value) > said:
                yield f"{path}: {word}"
        elif isinstance(value, str) and word == "pattern":
            if not re.search(said, value):
                yield f"{path}: not like {said}"
        elif isinstance(value, str) and word == "minLength":
            if len(value) < said:
                yield f"{path}: too short"
        elif isinstance(value, (int, float)) and word in ("minimum", "exclusiveMinimum", "maximum"):
            if {"minimum": value < said, "exclusiveMinimum": value <= said, "maximum": value > said}[word]:
                yield f"{path}: {word}"
        else:
            assert word in KNOWN, f"{path}: unknown word {word}"


KNOWN = {
    *("properties", "required", "additionalProperties", "minProperties", "items", "minItems", "maxItems"),
    *("format", "rules", "pattern", "minLength", "minimum", "exclusiveMinimum", "maximum"),
}


@pytest.fixture(scope="module")
def schema(repository: Path) -> dict[str, Any]:
    return build_file_schema(load_rules(repository, []).by_name)


GOOD = [
    '[package]\ndefault_visibility = ["//visibility:public"]',
    '[[filegroup]]\nname = "x"\nsrcs = ["a"]\ntags = ["slow"]',
    '[[filegroup]]\nname = "x"\nsrcs = { glob = ["*.py"], exclude = ["b.py"] }',
    '[[filegroup]]\nname = "x"\nsrcs = { select = { "//devices:a" = ["a"], default = [] } }',
    '[[filegroup]]\nname = "x"\nsrcs = ["a", { select = { default = "b" } }]',
    '[[filegroup]]\nname = "x{n}"\nsrcs = ["a{n}"]\nmatrix = { n = [1, 2], exclude = [{ n = 2 }] }',
    '[[matrix]]\nname = "m"\nn = [1, 2]\nexclude = [{ n = 2 }]\n[[filegroup]]\nname = "x{n}"\nsrcs = []\nmatrix = "m"',
    '[[filegroup]]\nname = "x{n}"\nsrcs = { glob = ["{n}/*"], allow_empty = "{n}" }\nmatrix = { n = [true] }',
]
BAD = [
    ('[[filegruop]]\nname = "x"', "/filegruop: nothing allowed"),
    ('[filegroup]\nname = "x"', "/filegroup: not array"),
    ('[[filegroup]]\nsrcs = ["a"]', "/filegroup/0: lacks name"),
    ('[[filegroup]]\nname = "x"', "/filegroup/0: lacks srcs"),
    ('[[filegroup]]\nname = "x"\nsrcs = ["a"]\nsrc = 1', "/filegroup/0/src: nothing allowed"),
    ('[[filegroup]]\nname = "x"\nsrcs = 3', "/filegroup/0/srcs: none of anyOf"),
    ('[[filegroup]]\nname = "x"\nsrcs = [3]', "/filegroup/0/srcs: none of anyOf"),
    ('[[filegroup]]\nname = "x"\nsrcs = { select = {} }', "/filegroup/0/srcs: none of anyOf"),
    ('[[filegroup]]\nname = 3\nsrcs = ["a"]', "/filegroup/0/name: not string"),
    ('[[filegroup]]\nname = "x"\nsrcs = ["a"]\nmatrix = { n = 1 }', "/filegroup/0/matrix: none of anyOf"),
    ('[[filegroup]]\nname = "x"\nsrcs = ["a"]\nmatrix = 3', "/filegroup/0/matrix: none of anyOf"),
    ("[[matrix]]\nn = [1]", "/matrix/0: lacks name"),
    ('[[matrix]]\nname = "m"\nn = 1', "/matrix/0/n: not array"),
    ("[package]\nvisibility = []", "/package/visibility: nothing allowed"),
]


@pytest.mark.parametrize("text", GOOD)
def test_lets_through(schema: dict[str, Any], text: str) -> None:
    assert list(errors(schema, tomllib.loads(text), schema)) == []


@pytest.mark.parametrize(("text", "message"), BAD)
def test_refuses(schema: dict[str, Any], text: str, message: str) -> None:
    assert list(errors(schema, tomllib.loads(text), schema)) == [message]


def test_the_examples_pass(schema: dict[str, Any], repository: Path) -> None:
    files = [path for path in (repository / "examples").rglob("BUILD.toml") if "modelbuild-out" not in path.parts]
    assert files
    for path in files:
        assert list(errors(schema, tomllib.loads(path.read_text()), schema)) == [], path


def test_every_rule_and_attribute_is_described(schema: dict[str, Any]) -> None:
    assert schema["$schema"] == DRAFT
    assert schema["properties"].keys() >= {"filegroup", "http_file", "pypi_file", "pte_program", "package"}
    for name, rule in schema["properties"].items():
        assert rule["description"], name
        for attribute, said in rule.get("items", {}).get("properties", {}).items():
            assert said.get("description"), f"{name}.{attribute}"
    for name, table in schema["definitions"].items():
        for attribute, said in table.get("properties", {}).items() if name not in ("select", "axis") else ():
            assert said.get("description"), f"{name}.{attribute}"


def test_nested_tables_fixed_tuples_and_choices() -> None:
    class Inner(Attrs):
        """Inside."""

        span: tuple[float, float] | None = None

    class OuterAttrs(Attrs):
        """Outside."""

        inner: tuple[Inner, ...]
        source: Source
        title: str = ""

    rule = Rule("outer", OuterAttrs, lambda ctx: (), "here")
    schema = build_file_schema({"outer": rule})
    table = schema["properties"]["outer"]["items"]
    assert set(table["properties"]) == {*ENGINE_ATTRIBUTES, "inner", "source", "title"}
    assert table["required"] == ["name", "inner", "source"]
    assert sorted(schema["definitions"]) == ["Inner", "axis", "select"]

    def check(inner: Any) -> list[str]:
        return list(errors(schema, {"outer": [{"name": "x", "source": "s", "inner": inner}]}, schema))

    assert check([{"span": [0, 1.5]}, {}]) == []
    assert check([{"span": {"select": {"default": [0, 1]}}}]) == []
    assert check([{"span": "{n}"}]) == []
    for wrong in ([{"span": [0]}], [{"span": [0, "x"]}], [{"sapn": [0, 1]}], {}):
        assert check(wrong) == ["/outer/0/inner: none of anyOf"]
