"""Expand the command line's target patterns, in Bazel's syntax, to targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelbuild.errors import LoadingError, UsageError, did_you_mean
from modelbuild.labels import Label, is_package_name
from modelbuild.lines import shown
from modelbuild.loading.loader import Skip, fail
from modelbuild.loading.tree import join

if TYPE_CHECKING:
    from modelbuild.loading.loader import Loader
    from modelbuild.loading.package import Target

# Patterns skip targets with this tag; labels do not.
MANUAL = "manual"

_ALL = ("all", "*")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern: a target (`name`), every target of a package, or (`below`) of all packages in a folder and below."""

    text: str
    subtract: bool
    package: str
    name: str | None = None
    below: bool = False


def parse_pattern(text: str, current: str) -> Pattern:
    """Parse a pattern relative to the package `current`: `//pkg:name`, `//pkg`, `:name`, `name`, `sub:name`,
    `//pkg:all` or `//pkg:*`, `//pkg/...`, `...`; each may begin with `-`. Raises UsageError for anything else."""
    subtract = text.startswith("-")
    body = text.removeprefix("-")
    if body.startswith("/"):
        full = body
    elif body.startswith(":"):
        full = f"//{current}{body}"
    elif ":" in body or "/" in body or body == "...":
        full = f"//{join(current, body)}"
    else:
        full = f"//{current}:{body}"
    if not full.startswith("//"):
        raise _not_a_pattern(text)
    where, colon, name = full[2:].partition(":")
    if (where == "..." or where.endswith("/...")) and (not colon or name in _ALL):
        pattern = Pattern(text, subtract, where.removesuffix("...").removesuffix("/"), below=True)
    elif name in _ALL:
        pattern = Pattern(text, subtract, where)
    else:
        try:
            label = Label.parse(full)
        except UsageError:
            raise _not_a_pattern(text) from None
        return Pattern(text, subtract, label.package, label.name)
    if not is_package_name(pattern.package):
        raise _not_a_pattern(text)
    return pattern


def expand_patterns(
    loader: Loader,
    texts: Sequence[str],
    current: str = "",
    manual: bool = False,
    skip: Skip = fail,
    places: Sequence[str] = (),
) -> tuple[Target, ...]:
    """Return the targets of all patterns, each once, in order; `-pattern` removes targets of earlier patterns. Targets
    tagged manual need to be named, unless `manual`.

    Raises UsageError for a malformed pattern, and for a package, folder or target that does not exist; with the place
    of the pattern (`file:line`) if there are `places`.
    """
    chosen: dict[Label, Target] = {}
    for position, text in enumerate(texts):
        try:
            pattern = parse_pattern(text, current)
            if pattern.subtract and position == 0:
                raise UsageError(f"'{text}' has nothing to subtract from; expected a pattern before it, such as //...")
            targets = _targets(loader, pattern, skip)
        except UsageError as error:
            raise UsageError(f"{places[position]}: {error}") if places else error from None
        for target in targets:
            if pattern.subtract:
                chosen.pop(target.label, None)
            elif manual or pattern.name is not None or MANUAL not in target.tags:
                chosen[target.label] = target
    return tuple(chosen.values())


def _targets(loader: Loader, pattern: Pattern, skip: Skip) -> list[Target]:
    if pattern.name is not None:
        label = Label(pattern.package, pattern.name)
        try:
            return [loader.target(label)]
        except LoadingError as error:
            skip(str(label), error)
            return []
    packages = loader.packages_below(pattern.package, skip) if pattern.below else [pattern.package]
    if not packages:
        hint = did_you_mean(f"//{pattern.package}", (f"//{name}" for name in loader.packages_below("")))
        raise UsageError(f"no package in //{join(pattern.package, '...')}{hint}")
    found: list[Target] = []
    for package in packages:
        try:
            targets = loader.package(package).targets
        except LoadingError as error:
            skip(f"//{package}:all", error)
        else:
            found += [targets[name] for name in sorted(targets)]
    return found


def _not_a_pattern(text: str) -> UsageError:
    expected = "expected //package:name, :name, //package:all or //package/..."
    return UsageError(f"{shown(text)} is not a target pattern; {expected}")
