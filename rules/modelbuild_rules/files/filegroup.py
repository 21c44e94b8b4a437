"""filegroup: a named set of files."""

from __future__ import annotations

from modelbuild.api import Context, Files, Provider, Sources, rule
from modelbuild_rules.files.origin import OriginAttrs


class FilegroupAttrs(OriginAttrs):
    """A named set of files that other targets use as sources."""

    srcs: Sources
    """The files: paths in the package, labels of targets that provide files, or `{ glob = [...] }`."""


EXAMPLE = """
[[filegroup]]
name = "photos"
srcs = { glob = ["photos/*.png"] }
"""


@rule(attrs=FilegroupAttrs, example=EXAMPLE)
def filegroup(ctx: Context[FilegroupAttrs]) -> tuple[Provider, ...]:
    files = ctx.files(ctx.attrs.srcs)
    return Files(files), ctx.attrs.origin(files)
