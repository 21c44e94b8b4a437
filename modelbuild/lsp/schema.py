"""The schemas of attributes by path, for completion and help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from modelbuild.analysis.json_schema import OF_EVERY_TARGET, OTHERS, attribute_schemas
from modelbuild.api.rule import Rule
from modelbuild.workspace.toml_tokens import KeyPath

_UNIONS = ("anyOf", "oneOf", "allOf")
_SELECT = "select"


class Schemas:
    """The schemas of rules' attributes, and of the tables that are no targets. Raises LoadingError for an attribute
    without a schema."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self._rules, self._definitions = attribute_schemas(rules)

    def at(self, rule: str, path: KeyPath) -> list[dict[str, Any]]:
        """Return the schemas that a value at a path of a rule's table may have, without references and unions. A path
        through a select is a path of the selected value."""
        own = self._rules.get(rule)
        if own is not None:
            found = [{**own, "properties": {**OF_EVERY_TARGET, **own.get("properties", {})}}]
        else:
            found = [OTHERS[rule]] if rule in OTHERS else []
        place = list(path)
        while place:
            part = place.pop(0)
            if part == _SELECT and place:
                place.pop(0)  # the device
                continue
            found = [each for schema in found for inner in _below(schema, part) for each in self._plain(inner)]
        return found

    def attribute(self, rule: str, path: KeyPath) -> Mapping[str, Any] | None:
        """Return the schema of an attribute as declared, with its description and default; None if it is unknown."""
        if not path:
            return None
        below = (inner for schema in self.at(rule, path[:-1]) for inner in _below(schema, path[-1]))
        return next((inner for inner in below if not isinstance(path[-1], int)), None)

    def _plain(self, schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        if "$ref" in schema:
            yield from self._plain(self._definitions[schema["$ref"].rpartition("/")[2]])
        elif union := next((word for word in _UNIONS if word in schema), None):
            for branch in schema[union]:
                yield from self._plain({**{k: v for k, v in schema.items() if k not in _UNIONS}, **branch})
        else:
            yield dict(schema)


def _below(schema: Mapping[str, Any], part: str | int) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas of a key or index of a value."""
    if isinstance(part, str):
        properties = schema.get("properties", {})
        if part in properties:
            yield properties[part]
        elif isinstance(schema.get("additionalProperties"), dict):
            yield schema["additionalProperties"]
        return
    prefix = schema.get("prefixItems", ())
    if part < len(prefix):
        yield prefix[part]
    elif isinstance(schema.get("items"), dict):
        yield schema["items"]
