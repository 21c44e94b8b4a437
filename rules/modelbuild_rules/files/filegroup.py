"""filegroup: a named set of files."""

from __future__ import annotations

from modelbuild.api import Context, Files, Provider, Sources, rule
from modelbuild_rules.files.origin import OriginAttrs


class FilegroupAttrs(OriginAttrs):
    """Files that other targets use."""

    srcs: Sources
    """The files."""


EXAMPLE = """
[[filegroup]]
name = "photos"
srcs = { glob = ["photos/*.png"] }
"""


@rule(attrs=FilegroupAttrs, example=EXAMPLE)
def filegroup(ctx: Context[FilegroupAttrs]) -> tuple[Provider, ...]:
    files = ctx.files(ctx.attrs.srcs)
    return Files(files), ctx.attrs.origin(files)
