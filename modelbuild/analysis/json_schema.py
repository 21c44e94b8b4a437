"""JSON Schemas of the attributes of rules, for help and for completion in editors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import PydanticUserError
from pydantic.json_schema import models_json_schema

from modelbuild.api.rule import Rule
from modelbuild.errors import LoadingError
from modelbuild.loading.matrix import MATRIX
from modelbuild.loading.package import PACKAGE_TABLE

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
        "description": "The toolchain of its actions and its dependencies' actions; 'installed': modelbuild's Python.",
    },
    "action_timeout": {
        "type": ["string", "integer"],
        "description": 'Time limit of each action, such as "2 h" or seconds, instead of the build\'s limit.',
    },
    "matrix": {
        "anyOf": [
            {**_TEXT, "format": "matrix"},
            {"type": "object", "properties": {"exclude": _EXCLUDE}, "additionalProperties": _AXES},
        ],
        "description": "Axes and their values, or the name of a [[matrix]] of the file; the target is declared for each"
        " combination, with {axis} replaced in its name and attributes.",
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
