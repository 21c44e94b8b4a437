"""The methods of models. A model whose inputs are declared without methods has the method `forward`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from modelbuild.api import Context, Dep, Label
from modelbuild.errors import did_you_mean
from modelbuild_rules.method_names import FORWARD
from modelbuild_rules.model.inputs import Place
from modelbuild_rules.providers import Model, ModelMethod

T = TypeVar("T")


def methods_of(ctx: Context[Any], label: Dep) -> Mapping[str, ModelMethod]:
    """Return the methods of a model by name, in the order of the names."""
    methods = ctx.provider(label, Model).methods
    return {name: methods[name] for name in sorted(methods)}


def method_of(ctx: Context[Any], label: Dep, name: str, place: Place) -> ModelMethod:
    """Return a model's method of this name, or the method of a model with `forward` alone. Raises LoadingError at the
    place if the model has other methods only."""
    methods = methods_of(ctx, label)
    found = methods.get(FORWARD if list(methods) == [FORWARD] else name)
    if found is None:
        raise ctx.error(place, f"'{label}' has no method '{name}'{nearest(name, list(methods))}")
    return found


def modules_of(ctx: Context[Any], given: Dep | Mapping[str, Dep], methods: Sequence[str]) -> dict[str, int]:
    """Return the number of each method's module. Methods of one model with `methods` have the same module."""
    owners: dict[str, int] = {}
    found: dict[str, int] = {}
    for name in methods:
        label = by_method(given, name)
        assert label is not None
        alone = list(methods_of(ctx, label)) == [FORWARD]
        owner = f"#{name}" if alone else str(Label.parse(label, ctx.label.package))
        found[name] = owners.setdefault(owner, len(owners))
    return found


def nearest(name: str, methods: Sequence[str]) -> str:
    """Return the end of a message about an unknown method: the nearest method, or all methods."""
    return did_you_mean(name, methods) or f"; expected {', '.join(methods)}"


def by_method(given: T | Mapping[str, T] | None, method: str) -> T | None:
    """Return a method's value of an attribute, which has one value or a table of values by method."""
    return given.get(method) if isinstance(given, Mapping) else given


def place_of(attribute: str, given: Any, method: str) -> Place:
    """Return the place of a method's value of an attribute."""
    return (attribute, method) if isinstance(given, Mapping) and method in given else (attribute,)


def check_names(ctx: Context[Any], what: str, place: Place, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise LoadingError for a name that the model does not have."""
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) or (f"; expected {', '.join(known)}" if known else "")
            raise ctx.error((*place, name), f"the model has no {what} '{name}'{hint}")
