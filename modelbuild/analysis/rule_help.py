"""The help of a rule's attributes: types, defaults and meaning, from the JSON Schema of the attributes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from modelbuild.analysis.json_schema import OF_EVERY_TARGET, attribute_schemas
from modelbuild.api.rule import Rule
from modelbuild.wording import size_text
from modelbuild.workspace.toml_values import toml_value

_TYPES = {"string": "string", "integer": "integer", "number": "number", "boolean": "boolean", "object": "table"}


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute. `default` is TOML, or '' if there is no default; a `required` attribute must be given."""

    name: str
    type: str
    required: bool
    default: str
    about: str


@dataclass(frozen=True, slots=True)
class AttributeTable:
    """A table of attributes: the rule's own, or one inside attributes, which their types name."""

    name: str
    about: str
    attributes: tuple[Attribute, ...]


@dataclass(frozen=True, slots=True)
class RuleHelp:
    """A rule: its attributes, the tables inside them, the attributes of every target, and a target in TOML."""

    attributes: AttributeTable
    tables: tuple[AttributeTable, ...]
    every: tuple[Attribute, ...]
    example: str


def describe_rule(rule: Rule) -> RuleHelp:
    """Return the help of a rule. Raises LoadingError for an attribute without a schema."""
    by_rule, definitions = attribute_schemas({rule.name: rule})
    own = by_rule[rule.name]
    tables: dict[str, AttributeTable] = {}
    waiting = list(_references(own))
    while waiting:
        name = waiting.pop(0)
        if name not in tables and "properties" in definitions[name]:
            tables[name] = _table(name, definitions[name])
            waiting += _references(definitions[name])
    every = tuple(describe_attribute(name, schema, name == "name") for name, schema in OF_EVERY_TARGET.items())
    return RuleHelp(_table(rule.name, own), tuple(tables.values()), every, rule.example or minimal_target(rule))


def summary(rule: Rule) -> str:
    """Return the first paragraph of a rule's description, on one line."""
    return " ".join((rule.attrs.__doc__ or "").partition("\n\n")[0].split())


def _table(name: str, schema: Mapping[str, Any]) -> AttributeTable:
    required = schema.get("required", ())
    rows = [describe_attribute(each, about, each in required) for each, about in schema.get("properties", {}).items()]
    rows.sort(key=lambda row: not row.required)
    return AttributeTable(name, _text(schema.get("description", "")), tuple(rows))


def describe_attribute(name: str, schema: Mapping[str, Any], required: bool = False) -> Attribute:
    """Return an attribute's description from its JSON Schema."""
    kind, given = _type(schema), schema.get("default")
    if kind == "size" and isinstance(given, int):
        given = size_text(given)
    shown = "" if given is None or isinstance(given, dict) else toml_value(given)
    return Attribute(name, kind, required, shown, _text(schema.get("description", "")))


def _text(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type of a value with a schema, such as `list of (integer or string)`."""
    if "$ref" in schema:
        return f"table {schema['$ref'].rpartition('/')[2]}"
    if "const" in schema or "enum" in schema:
        return _alternatives(json.dumps(each) for each in schema.get("enum", [schema.get("const")]))
    if schema.get("format") in ("size", "duration"):
        return str(schema["format"])
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return _alternatives(_type(branch) for branch in schema[word] if branch.get("type") != "null")
    kind = schema.get("type")
    if isinstance(kind, list):
        return _alternatives(_TYPES.get(str(each), "value") for each in kind)
    if kind == "array":
        if "prefixItems" in schema:
            return f"[{', '.join(_type(item) for item in schema['prefixItems'])}]"
        return f"list of {_inner(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"table of {_inner(schema['additionalProperties'])} by name"
    if schema.get("format") == "label":
        rules = schema.get("rules")
        return f"label of a {' or '.join(rules)}" if rules else "label"
    if schema.get("format") == "matrix":
        return "name of a matrix"
    if schema.get("format") == "file":
        return "file"
    return _TYPES.get(str(kind), "value") + _bounds(schema)


def _inner(schema: Mapping[str, Any]) -> str:
    kind = _type(schema)
    return f"({kind})" if " or " in kind else kind


def _alternatives(kinds: Iterable[str]) -> str:
    """Return `a, b or c`, each kind once."""
    *others, last = dict.fromkeys(kinds)
    return f"{', '.join(others)} or {last}" if others else last


def _bounds(schema: Mapping[str, Any]) -> str:
    words = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    found = [f"{text} {schema[word]}" for word, text in words.items() if word in schema]
    return f" ({', '.join(found)})" if found else ""


def _references(schema: Any) -> Iterator[str]:
    """Yield the definitions to which a schema refers, in order."""
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].rpartition("/")[2]
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def minimal_target(rule: Rule) -> str:
    """Return a target in TOML that has only the required attributes, with a value of the right type for each."""
    by_rule, definitions = attribute_schemas({rule.name: rule})
    values = _placeholders(by_rule[rule.name], definitions)
    lines = [f"[[{rule.name}]]", f'name = "my_{rule.name}"', *(f"{name} = {toml_value(each)}" for name, each in values)]
    return "\n".join(lines) + "\n"


def _placeholders(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[tuple[str, Any]]:
    required = schema.get("required", ())
    properties = schema.get("properties", {})
    return [(name, _placeholder(name, properties[name], definitions)) for name in properties if name in required]


def _placeholder(name: str, schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Any:
    """Return a value of the right type for an attribute."""
    if "$ref" in schema:
        return dict(_placeholders(definitions[schema["$ref"].rpartition("/")[2]], definitions))
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return _placeholder(name, schema[word][0], definitions)
    match schema.get("type"):
        case "array":
            items = schema.get("prefixItems") or [schema.get("items", {})] * max(1, schema.get("minItems", 1))
            return [_placeholder(name, item, definitions) for item in items]
        case "object":
            inner = schema.get("additionalProperties")
            return {"name": _placeholder(name, inner, definitions)} if isinstance(inner, dict) else {}
        case "integer" | "number":
            return schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
        case "boolean":
            return False
    return f":{name}" if schema.get("format") == "label" else name
