"""A JSON Schema of BUILD.toml, from the loaded rules' attribute schemas, for completion and checks in editors.

Draft 7, which Taplo and similar tools read. It accepts slightly more than modelbuild: any value may be a select, and a
string may contain an axis of a matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import PydanticUserError
from pydantic.json_schema import models_json_schema

from modelbuild.api.rule import Rule
from modelbuild.errors import LoadingError
from modelbuild.loading.matrix import MATRIX
from modelbuild.loading.package import PACKAGE_TABLE

DRAFT = "http://json-schema.org/draft-07/schema#"
_REFERENCE = "#/definitions/{model}"
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_VISIBILITY = {
    **_TEXTS,
    "description": 'Who may depend on it: "//visibility:public", "//visibility:private", packages such as'
    ' "//models:__pkg__" or "//models:__subpackages__".',
}
_VALUE = {"type": ["string", "number", "boolean"]}
_AXES = {"type": "array", "items": _VALUE, "minItems": 1}
_EXCLUDE = {
    "type": "array",
    "description": "Combinations that are left out, each as some axes with a value.",
    "items": {"type": "object", "additionalProperties": _VALUE},
}

OF_EVERY_TARGET: dict[str, Any] = {
    "name": {**_TEXT, "minLength": 1, "description": "The target's name, unique in its package."},
    "visibility": _VISIBILITY,
    "tags": {**_TEXTS, "description": "Words for selecting targets."},
    "toolchain": {
        **_TEXT,
        "format": "label",
        "rules": ["python_toolchain"],
        "description": "The python_toolchain that its actions run in, and those of its dependencies; 'installed': the"
        " Python of modelbuild.",
    },
    "action_timeout": {
        "type": ["string", "integer"],
        "description": 'Duration that an action of the target may run, such as "2 h" or seconds; in place of the'
        " build's limit.",
    },
    "matrix": {
        "anyOf": [
            {**_TEXT, "format": "matrix"},
            {"type": "object", "properties": {"exclude": _EXCLUDE}, "additionalProperties": _AXES},
        ],
        "description": "Axes and their values, or the name of a [[matrix]] of the file that has them; the target is"
        " declared once for each combination, with {axis} replaced in its name and attributes.",
    },
}
# Tables that are no targets.
OTHERS: dict[str, dict[str, Any]] = {
    PACKAGE_TABLE: {
        "type": "object",
        "description": "Settings for all targets of this file.",
        "properties": {"default_visibility": _VISIBILITY},
        "additionalProperties": False,
    },
    MATRIX: {
        "type": "object",
        "description": "Axes and their values, for all targets of this file whose matrix is its name.",
        "properties": {
            "name": {**_TEXT, "minLength": 1, "description": "The matrix's name, unique in its file."},
            "exclude": _EXCLUDE,
        },
        "required": ["name"],
        "additionalProperties": _AXES,
    },
}
_OTHER = {
    "select": {
        "type": "object",
        "description": 'A value by device: { select = { "//devices:a" = 1, default = 2 } }.',
        "properties": {"select": {"type": "object", "minProperties": 1}},
        "required": ["select"],
        "additionalProperties": False,
    },
    "axis": {"type": "string", "pattern": r"\{[^{}]+\}", "description": "A value of the matrix: {axis}."},
}


def attribute_schemas(rules: Mapping[str, Rule]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return pydantic's schema of each rule's attributes, by the rule's name, and the definitions that they refer to.
    Raises LoadingError for an attribute without a schema."""
    models = [(rule.attrs, "validation") for rule in rules.values()]
    try:
        by_model, shared = models_json_schema(models, ref_template=_REFERENCE)  # type: ignore[arg-type]
    except PydanticUserError as error:  # for a type in a workspace's own rule
        raise LoadingError(f"an attribute has no JSON Schema: {error.message}") from error
    definitions = shared.get("$defs", {})
    references = {name: by_model[rule.attrs, "validation"]["$ref"] for name, rule in rules.items()}
    return {name: definitions[each.rpartition("/")[2]] for name, each in references.items()}, definitions


def build_file_schema(rules: Mapping[str, Rule]) -> dict[str, Any]:
    """Return the schema of a BUILD.toml with these rules, by name. Raises LoadingError for an attribute without a
    schema."""
    by_rule, definitions = attribute_schemas(rules)
    tables = {MATRIX: OTHERS[MATRIX], **{name: _table(attributes) for name, attributes in sorted(by_rule.items())}}
    used = {name: _open(schema) for name, schema in definitions.items()}
    schema = {
        "$schema": DRAFT,
        "title": "BUILD.toml",
        "type": "object",
        "properties": {
            PACKAGE_TABLE: OTHERS[PACKAGE_TABLE],
            **{
                name: {"type": "array", "description": table.get("description", ""), "items": table}
                for name, table in tables.items()
            },
        },
        "additionalProperties": False,
        "definitions": {**_OTHER, **used},
    }
    return _without_unused(schema)


def _table(attrs: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of one [[rule]] table: its attributes and the engine's."""
    opened = _open(attrs)
    return {
        **opened,
        "properties": {**OF_EVERY_TARGET, **opened.get("properties", {})},
        "required": ["name", *opened.get("required", ())],
        "additionalProperties": False,
    }


def _open(schema: Any, inside: bool = False) -> Any:
    """Translate a schema of pydantic's to draft 7. Below properties and in lists, it also accepts selects and axes."""
    if not isinstance(schema, dict):
        return schema
    words = {key: value for key, value in schema.items() if key not in ("title", "discriminator")}
    for key in ("anyOf", "oneOf", "allOf"):
        if key in words:
            words[key] = [_open(branch) for branch in words[key]]
    if "properties" in words:
        words["properties"] = {name: _open(value, True) for name, value in words["properties"].items()}
    if isinstance(words.get("additionalProperties"), dict):
        words["additionalProperties"] = _open(words["additionalProperties"], True)
    if "prefixItems" in words:
        words["items"] = [_open(item, True) for item in words.pop("prefixItems")]
    elif isinstance(words.get("items"), dict):
        words["items"] = _open(words["items"], True)
    if not inside:
        return words
    about = {key: words.pop(key) for key in ("description", "default") if key in words}
    return {**about, "anyOf": [words, {"$ref": "#/definitions/select"}, {"$ref": "#/definitions/axis"}]}


def _without_unused(schema: dict[str, Any]) -> dict[str, Any]:
    """Drop definitions without references: the rules' own, which are inlined in their tables."""
    definitions = schema["definitions"]
    rest = {key: value for key, value in schema.items() if key != "definitions"}
    kept: set[str] = set()
    new = _references(rest)
    while new:
        kept |= new
        new = {name for one in new for name in _references(definitions[one])} - kept
    return {**rest, "definitions": {name: definitions[name] for name in sorted(kept)}}


def _references(schema: Any) -> set[str]:
    if isinstance(schema, dict):
        own = {schema["$ref"].rpartition("/")[2]} if isinstance(schema.get("$ref"), str) else set()
        return own.union(*map(_references, schema.values()))
    if isinstance(schema, list):
        return set().union(*map(_references, schema))
    return set()
