"""test_suite: a name for a set of targets to build and test together."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from modelbuild.api import Attrs, Context, Dep, Files, Provider, rule


@dataclass(frozen=True, slots=True)
class Suite(Provider):
    """Labels (`//package:name`) of a suite's targets, without duplicates, with nested suites expanded."""

    tests: tuple[str, ...]


class TestSuiteAttrs(Attrs):
    """Targets that are built or tested together."""

    tests: tuple[Dep, ...] = Field(min_length=1)
    """Labels of targets, including other suites."""


EXAMPLE = """
[[test_suite]]
name = "tests"
tests = [":net_test", ":net_py_test"]
"""


@rule(attrs=TestSuiteAttrs, example=EXAMPLE)
def test_suite(ctx: Context[TestSuiteAttrs]) -> tuple[Provider, ...]:
    tests: list[str] = []
    for dep in ctx.attrs.tests:
        inner = [p for p in ctx.providers(dep) if isinstance(p, Suite)]
        tests += inner[0].tests if inner else [str(type(ctx.label).parse(dep, ctx.label.package))]
    built = (f for dep in ctx.attrs.tests for p in ctx.providers(dep) if isinstance(p, Files) for f in p.files)
    return Suite(tuple(dict.fromkeys(tests))), Files(tuple(dict.fromkeys(built)))
