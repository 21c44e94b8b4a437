"""Attributes of targets that bring files into a program: licence and source, for provenance and SBOMs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from modelbuild.api import Artifact, Attrs, Origin
from modelbuild.redaction import without_secrets


def _check_license(text: str) -> str:
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

    try:
        return canonicalize_license_expression(text)
    except InvalidLicenseExpression:
        expected = "an SPDX expression, such as 'Apache-2.0', 'MIT OR BSD-3-Clause' or 'LicenseRef-Own'"
        raise ValueError(f"{text!r} is not a licence; expected {expected}") from None


def has_user(address: str) -> bool:
    """Return whether an address contains a user name or a password."""
    return "@" in re.sub(r"[/?#].*", "", address.partition("://")[2], flags=re.DOTALL)


def _check_source(text: str) -> str:
    if has_user(text):  # the message must not contain it
        raise ValueError("contains a user name or a password; expected an address without them")
    try:
        scheme = urlsplit(text).scheme
    except ValueError:
        scheme = ""
    if not scheme or not re.fullmatch(r"[!-~]+", text):
        raise ValueError(f"{text!r} is not an address; expected an address such as 'https://host.example/model'")
    return text


License = Annotated[str, AfterValidator(_check_license)]
SourceAddress = Annotated[str, AfterValidator(_check_source)]


class OriginAttrs(Attrs):
    """The licence and the source of files. No key contains them."""

    license: License | None = None
    """The files' licence as an SPDX expression, such as `Apache-2.0`, for provenance and SBOMs."""

    source: SourceAddress | None = None
    """The files' address, for provenance and SBOMs."""

    def origin(self, files: Iterable[Artifact], *uris: str) -> Origin:
        """Return the origin of a target's files. `uris` are known addresses of the files."""
        addresses = [uri for uri in (self.source, *uris) if uri]
        return Origin(tuple(files), self.license or "", tuple(map(without_secrets, addresses)))
