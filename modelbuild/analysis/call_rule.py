"""Call a rule's function, and attribute its errors to the rule or to the target."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from modelbuild.actions import Artifact, DerivedArtifact, SourceArtifact
from modelbuild.analysis.undeclared_reads import refused_reads
from modelbuild.api.providers import Files, Provider, TestAction
from modelbuild.api.rule import Rule
from modelbuild.api.rule_errors import describe_error
from modelbuild.errors import LoadingError, Location, ModelbuildError
from modelbuild.paths import PathError
from modelbuild.workspace.workspace import BUILT_IN


def call_rule(
    rule: Rule,
    context: Any,
    check: Callable[[Artifact], None],
    folder: Path,
    root: Path,
    at: Callable[[], Location],
) -> tuple[Provider, ...]:
    """Return the providers of a rule in the package at `folder`, for a target declared at `at` in the workspace at
    `root`. `check` raises ValueError for an artifact that cannot be built.

    Raises LoadingError for any error in the rule, except that an error in a built-in rule is a bug and passes
    unchanged.
    """
    try:
        with refused_reads():
            providers = _checked(rule.implementation(context), check)
    except LoadingError as error:
        raise error if error.location else LoadingError(error.message, at()) from None
    except ModelbuildError:
        raise
    except (Exception, SystemExit) as error:
        # A user's name can make a path too long, so this is not a bug of a built-in rule.
        if rule.package == BUILT_IN and not isinstance(error, PathError):
            raise
        raise LoadingError(f"rule '{rule.name}' fails: {describe_error(error, folder, root)}", at()) from error
    if any(isinstance(p, TestAction) for p in providers) and not rule.name.endswith("_test"):
        message = f"the rule '{rule.name}' returns a TestAction; expected a name that ends in '_test'"
        raise LoadingError(message, at())
    return providers


def _checked(given: object, check: Callable[[Artifact], None]) -> tuple[Provider, ...]:
    providers = tuple(given) if isinstance(given, Iterable) else (given,)
    if not isinstance(given, Iterable) or not all(isinstance(each, Provider) for each in providers):
        raise TypeError(f"it returns {given!r}; expected a tuple of providers, such as (Files(...),)")
    for each in providers:
        if isinstance(each, Files) and not (isinstance(each.files, tuple) and all(map(_is_artifact, each.files))):
            raise TypeError(f"it returns {each!r}; expected a tuple of artifacts, such as Files((made[...],))")
        for artifact in _artifacts(each):
            check(artifact)
    return providers


def _artifacts(provider: Provider) -> Iterable[Artifact]:
    """Return the artifacts that are built with the target."""
    if isinstance(provider, Files):
        return provider.files
    if isinstance(provider, TestAction):
        return (*provider.reports, *filter(None, (provider.bisect,)))
    return ()


def _is_artifact(value: object) -> bool:
    return isinstance(value, (SourceArtifact, DerivedArtifact))
