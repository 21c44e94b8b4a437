"""release: files that are published together under a version, after their tests passed."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from modelbuild.api import (
    Attrs,
    Context,
    Dep,
    Files,
    Label,
    Output,
    Provider,
    Release,
    Source,
    Sources,
    TestAction,
    rule,
)
from modelbuild_rules.testing.test_suite import Suite

# The version is a tag in a registry, and a folder's name elsewhere.
_VERSION = "[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"


def _check_version(text: str) -> str:
    if not re.fullmatch(_VERSION, text, re.ASCII):
        expected = "one of letters, digits, '.', '_' and '-', such as '1.2.0'"
        raise ValueError(f"{text!r} is not a version; expected {expected}")
    return text


Version = Annotated[str, AfterValidator(_check_version), Field(json_schema_extra={"pattern": f"^{_VERSION}$"})]


class ReleaseAttrs(Attrs):
    """Files that `modelbuild release` publishes together after their tests passed. A build also makes a list,
    `release.json`."""

    version: Version
    """The version: the tag in a registry, elsewhere a folder's name."""

    artifacts: Sources
    """The files. Their names must differ."""

    tests: tuple[Dep, ...] = ()
    """Tests and test suites that must run and pass before anything is published."""

    notes: Source | None = None
    """Release notes, which are published as well."""


EXAMPLE = """
[[release]]
name = "net_1_0"
version = "1.0.0"
artifacts = [":net_bundle"]
tests = [":net_test"]
"""


@rule(attrs=ReleaseAttrs, example=EXAMPLE)
def release(ctx: Context[ReleaseAttrs]) -> tuple[Provider, ...]:
    attrs = ctx.attrs
    files = ctx.files(attrs.artifacts)
    if not files:
        raise ctx.error("artifacts", "these give no files; expected some to release")
    for index, test in enumerate(attrs.tests):
        if not any(isinstance(provider, TestAction | Suite) for provider in ctx.providers(test)):
            raise ctx.error(("tests", index), f"'{test}' is no test; expected a test or a test_suite")
    notes = (ctx.file(attrs.notes),) if attrs.notes is not None else ()
    made = ctx.action(
        "describe",
        step="describe",
        inputs={"artifacts": files, "notes": notes},
        outputs=[Output("release", "release.json")],
        params={"name": ctx.label.name, "version": attrs.version},
        description=f"list the files of {attrs.version}",
    )
    tests = (str(Label.parse(test, ctx.label.package)) for test in attrs.tests)
    return Release(attrs.version, tuple(dict.fromkeys(tests))), Files(
        tuple(dict.fromkeys((*files, *notes, made["release"])))
    )
