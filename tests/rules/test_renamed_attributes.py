"""Old names of attributes: each is an error that names the new one, and each new one exists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from modelbuild.analysis.rules import load_rules
from modelbuild.analysis.validate import validate
from modelbuild.api import Attrs
from modelbuild.errors import LoadingError, Location


def schemas(annotation: Any) -> Iterator[type[Attrs]]:
    """Yield the schemas in a type, from outside to inside."""
    if isinstance(annotation, type) and issubclass(annotation, Attrs):
        yield annotation
        for info in annotation.model_fields.values():
            yield from schemas(info.annotation)
    for each in get_args(annotation):
        yield from schemas(each)


RULES = load_rules(Path(), ())
RENAMED = {
    (schema, old): new
    for rule in RULES.by_name.values()
    for schema in schemas(rule.attrs)
    for old, new in schema.renamed.items()
}


@pytest.mark.parametrize(("schema", "old"), RENAMED, ids=lambda part: getattr(part, "__name__", part))
def test_an_old_name_is_an_error_that_names_the_new_one(schema: type[Attrs], old: str) -> None:
    with pytest.raises(LoadingError) as caught:
        validate("rule", "target", schema, {old: 1}, lambda path: Location("BUILD.toml", 1, len(path)))
    assert str(caught.value).endswith(f"unknown attribute '{old}' of rule 'target'; expected '{RENAMED[schema, old]}'")
    models: list[type[Attrs]] = [schema]
    for part in RENAMED[schema, old].split("."):
        fields = [model.model_fields[part] for model in models if part in model.model_fields]
        assert fields, f"{schema.__name__} has no attribute {RENAMED[schema, old]}"
        models = [inner for info in fields for inner in schemas(info.annotation)]
