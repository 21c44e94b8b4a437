"""Addresses without the secrets in them: users, passwords, queries and fragments. The user of an ssh address stays: a
token can stand in the place of a user in the others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from modelbuild.actions import Material

# Its end is also the end of a quotation: messages put addresses into quotes.
_ADDRESS = re.compile(
    r"""(?<![A-Za-z0-9+.-])([A-Za-z0-9+.-]+://)([^\s/?#"'<>]*@)?([^\s?#"'<>]*)((?:[?#][^\s"'<>]*)?)"""
)
_PUNCTUATION = ".,:;)]"


def without_secrets(text: str) -> str:
    """Return text whose addresses have no user, password, query and fragment, except the user of ssh: the signature of
    a signed address is in its query. The only function that does so; every text that is shown or recorded passes it."""
    return _ADDRESS.sub(_plain, text) if "://" in text else text


def _plain(address: re.Match[str]) -> str:
    scheme, user, place, removed = address.groups()
    kept = f"{user[:-1].partition(':')[0]}@" if user and scheme == "ssh://" else ""
    return f"{scheme}{kept}{place}{removed[len(removed.rstrip(_PUNCTUATION)) :]}"


def redacted(value: Any) -> Any:
    """Return JSON values without the secrets in addresses. Names of members are kept."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {name: redacted(inner) for name, inner in value.items()}
    return [redacted(inner) for inner in value] if isinstance(value, list | tuple) else value


def redacted_material(material: Material) -> Material:
    """Return the contents of a key, for records and statements, without the secrets in addresses."""
    texts = {name: redacted(value) for name, value in material.items() if name in ("params", "env")}
    return cast("Material", {**material, **texts})
