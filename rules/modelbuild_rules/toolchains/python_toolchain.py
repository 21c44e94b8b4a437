"""python_toolchain: an environment of pinned packages that steps run in, made by the build itself."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from modelbuild.api import Attrs, Context, Provider, PythonToolchain, Source, SourceArtifact, is_line, rule
from modelbuild_rules.distributions import Distribution

_VERSION = re.compile(r"3\.[0-9]{1,2}(\.[0-9]{1,3})?")


def _check_python(text: str) -> str:
    if not (_VERSION.fullmatch(text) or (text.startswith("/") and is_line(text))):
        expected = "expected a version such as '3.12', or the absolute path of a program"
        raise ValueError(f"'{text}' is not a Python; {expected}")
    return text


class PythonToolchainAttrs(Attrs):
    """An environment of Python packages for steps, made in the cache from a lock."""

    lock: Source
    """Requirements with hashes (`uv pip compile --generate-hashes`), or a pylock.toml."""

    python: Annotated[str, AfterValidator(_check_python)] | None = None
    """A version, such as "3.12", or the absolute path of a program; by default modelbuild's Python."""

    from_source: tuple[Distribution, ...] = ()
    """Distributions without a wheel, which this machine builds from source archives."""


EXAMPLE = """
[[python_toolchain]]
name = "tools"
lock = "requirements.lock"
"""


@rule(attrs=PythonToolchainAttrs, example=EXAMPLE)
def python_toolchain(ctx: Context[PythonToolchainAttrs]) -> tuple[Provider, ...]:
    lock = ctx.file(ctx.attrs.lock)
    if not isinstance(lock, SourceArtifact):
        raise ctx.error("lock", "the lock is made by an action; expected a file of the workspace")
    names = tuple(sorted({re.sub(r"[-_.]+", "-", name).lower() for name in ctx.attrs.from_source}))
    return (PythonToolchain(lock, ctx.attrs.python or "", names),)
