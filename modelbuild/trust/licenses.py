"""SPDX expressions compared with a list of allowed licences."""

from __future__ import annotations

import re
from collections.abc import Collection

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

_WORDS = re.compile(r"\(|\)|[^\s()]+")


def is_known(name: str) -> bool:
    """Return whether a text is one SPDX identifier, or one `WITH` an exception."""
    try:
        canonical = canonicalize_license_expression(name)
    except InvalidLicenseExpression:
        return False
    return not re.search(r"[()]| (AND|OR) ", canonical)


def is_allowed(expression: str, allowed: Collection[str]) -> bool:
    """Return whether an expression is satisfied by allowed licences alone. An allowed licence is also allowed with any
    exception, because exceptions only permit more."""
    try:
        words = _WORDS.findall(canonicalize_license_expression(expression))
    except InvalidLicenseExpression:
        return False
    return _any(words, {canonicalize_license_expression(name) for name in allowed})


def _any(words: list[str], allowed: set[str]) -> bool:
    """Read and evaluate `a OR b OR ...`; AND binds tighter."""
    found = _all(words, allowed)
    while words and words[0] == "OR":
        words.pop(0)
        found = _all(words, allowed) or found
    return found


def _all(words: list[str], allowed: set[str]) -> bool:
    found = _one(words, allowed)
    while words and words[0] == "AND":
        words.pop(0)
        found = _one(words, allowed) and found
    return found


def _one(words: list[str], allowed: set[str]) -> bool:
    name = words.pop(0)
    if name == "(":
        found = _any(words, allowed)
        words.pop(0)
        return found
    if words and words[0] == "WITH":
        with_exception = f"{name} WITH {words[1]}"
        del words[:2]
        return name in allowed or with_exception in allowed
    return name in allowed
