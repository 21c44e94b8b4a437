"""The methods of a torch_model with several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelbuild.api import Context, Dep
from modelbuild.errors import did_you_mean
from modelbuild_rules.model.inputs import Place
from modelbuild_rules.providers import EagerModel, ExportedModel, ModelMethod, ModelMethods


def methods_of(ctx: Context[Any], label: Dep) -> Mapping[str, ModelMethod]:
    """Return the methods of a model by name; empty for a model with `forward` alone."""
    return next((each.methods for each in ctx.providers(label) if isinstance(each, ModelMethods)), {})


def method_of(ctx: Context[Any], label: Dep, name: str, place: Place) -> ExportedModel:
    """Return the method of this name, or a model with `forward` alone. Raises LoadingError at the place if the model
    has other methods only."""
    methods = methods_of(ctx, label)
    return _found(ctx, label, name, place).exported if methods else ctx.provider(label, ExportedModel)


def eager_method_of(ctx: Context[Any], label: Dep, name: str, place: Place) -> EagerModel:
    """Return the same as method_of(), in eager PyTorch."""
    methods = methods_of(ctx, label)
    return _found(ctx, label, name, place).eager if methods else ctx.provider(label, EagerModel)


def _found(ctx: Context[Any], label: Dep, name: str, place: Place) -> ModelMethod:
    methods = methods_of(ctx, label)
    if name not in methods:
        hint = did_you_mean(name, methods) or f"; expected {', '.join(methods)}"
        raise ctx.error(place, f"'{label}' has no method '{name}'{hint}")
    return methods[name]
