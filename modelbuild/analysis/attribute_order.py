"""The order of a target's attributes in a formatted BUILD file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from modelbuild.api.attrs import Attrs
from modelbuild.api.rule import Rule
from modelbuild.loading.matrix import MATRIX
from modelbuild.loading.package import ENGINE_ATTRIBUTES

_FIRST = ("name", MATRIX)


def table_order(rules: Mapping[str, Rule]) -> Callable[[str], Sequence[str]]:
    """Return a function from a table's header to the attributes of its rule, in order."""
    known = {f"[[{name}]]": attribute_order(rule) for name, rule in rules.items()}
    known[f"[[{MATRIX}]]"] = ("name",)
    return lambda header: known.get(header, ())


def attribute_order(rule: Rule) -> tuple[str, ...]:
    """Return the attributes of a rule in order: the name, the matrix, the rule's own attributes as declared, attributes
    shared with other rules, and attributes of every target."""
    declared: dict[str, None] = {}
    for schema in (each for each in rule.attrs.__mro__ if issubclass(each, Attrs)):
        again = {name for base in schema.__bases__ if issubclass(base, Attrs) for name in base.model_fields}
        declared.update(
            dict.fromkeys(name for name in schema.__annotations__ if name in schema.model_fields.keys() - again)
        )
    own = [rule.attrs.model_fields[name].alias or name for name in declared]
    return tuple(dict.fromkeys((*_FIRST, *own, *ENGINE_ATTRIBUTES)))
