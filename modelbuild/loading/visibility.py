"""Visibility: the packages that may depend on a target."""

from __future__ import annotations

from modelbuild.errors import LoadingError
from modelbuild.labels import is_package_name
from modelbuild.loading.package import Target
from modelbuild.workspace.toml_document import Where

PUBLIC = "//visibility:public"
PRIVATE = "//visibility:private"
_ONE = ":__pkg__"
_BELOW = ":__subpackages__"


def parse_visibility(text: str, package: str) -> str:
    """Return an entry of `visibility` in the form for `visible`: `//pkg` and `:__pkg__` written out.

    Raises ValueError, with the expected forms, for a malformed entry.
    """
    if text in (PUBLIC, PRIVATE):
        return text
    full = f"//{package}{text}" if text.startswith(":") else text
    if full.startswith("//") and full != "//" and ":" not in full:
        full += _ONE
    name = full.removesuffix(_ONE).removesuffix(_BELOW)
    if name.startswith("//") and full != name and is_package_name(name[2:]):
        return full
    raise ValueError(f"expected '{PUBLIC}', '{PRIVATE}', '//package:__pkg__' or '//package:__subpackages__'")


def visible(target: Target, from_package: str) -> bool:
    """Return whether targets of a package may depend on a target. Its own package always may."""
    if from_package == target.label.package:
        return True
    for entry in target.visibility:
        if entry == PUBLIC:
            return True
        name, _, scope = entry[2:].rpartition(":")
        if entry != PRIVATE and name == from_package:
            return True
        if scope == "__subpackages__" and (not name or from_package.startswith(name + "/")):
            return True
    return False


def check_visible(target: Target, from_package: str, at: Where) -> None:
    """Raise LoadingError, located at the reference in `from_package`, unless `target` is visible there."""
    if not visible(target, from_package):
        raise LoadingError(
            f"{target.label} is not visible from //{from_package}; to allow it, add '//{from_package}:__pkg__' to its "
            f"visibility at {target.location(('visibility',))}",
            at(),
        )
