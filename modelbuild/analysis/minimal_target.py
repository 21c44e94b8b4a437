"""A target with only the required attributes of a rule: each is a placeholder of the right type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelbuild.analysis.json_schema import attribute_schemas
from modelbuild.api.rule import Rule
from modelbuild.workspace.toml_values import toml_value


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
