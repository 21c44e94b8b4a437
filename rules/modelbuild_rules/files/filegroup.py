"""filegroup: a named set of files."""

from __future__ import annotations

from modelbuild.api import Attrs, Context, Files, Provider, Sources, rule


class FilegroupAttrs(Attrs):
    """A named set of files that other targets use as sources."""

    srcs: Sources
    """The files: paths in the package and labels of targets that provide files, or `{ glob = [...] }`."""


EXAMPLE = """
[[filegroup]]
name = "photos"
srcs = { glob = ["photos/*.png"] }
"""


@rule(attrs=FilegroupAttrs, example=EXAMPLE)
def filegroup(ctx: Context[FilegroupAttrs]) -> tuple[Provider, ...]:
    return (Files(ctx.files(ctx.attrs.srcs)),)
