"""Arbitrary queries: the result is nodes, or one error with a column."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from modelbuild.analysis.analyze import Analyzer
from modelbuild.analysis.rules import load_rules
from modelbuild.errors import LoadingError, UsageError
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.query.configured_world import ConfiguredWorld
from modelbuild.query.evaluate import evaluate
from modelbuild.query.functions import FUNCTIONS, compiled
from modelbuild.query.output import render
from modelbuild.query.target_world import TargetWorld
from modelbuild.workspace.workspace import load_workspace
from tests.every_rule import PACKAGE, write_files
from tests.hostile import NASTY, cases, document, run_property

NODES = ("//...", "//:all", ":group", "//:cpu", "//:program_stack", "a.txt", ":a.txt", "//:none", "//sub:x", "sub/c.py")
REGEXES = ("'(('", '"a{99999999999}"', "'[[a]'", "'(?i'", "''", "'*'", "'(a*)*b'", f"'{'(' * 3000}{')' * 3000}'")
WORDS = st.sampled_from((*NODES, *REGEXES, "1", "9" * 5000, "'٣'", "$v", "$w", "+", *NASTY)) | st.text(max_size=5)


def expressions() -> st.SearchStrategy[str]:
    def around(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        functions = st.sampled_from((*FUNCTIONS, "none"))
        operators = st.sampled_from(("+", "-", "^", "union", "except", "intersect", "in"))
        return (
            st.builds(lambda name, inside: f"{name}({', '.join(inside)})", functions, st.lists(inner, max_size=3))
            | st.builds("({} {} {})".format, inner, operators, inner)
            | st.builds("set({} {})".format, WORDS, WORDS)
            | inner.map(lambda text: "(" * 60 + text + ")" * 60)
        )

    return st.recursive(WORDS, around, max_leaves=8)


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    root: Path = tmp_path_factory.mktemp("workspace")
    write_files(root)
    (root / "BUILD.toml").write_text(document(PACKAGE))
    rules = load_rules(root, ())
    analyzer = Analyzer(Loader(load_workspace(root, {}), rules.by_name), rules, Label("", "cpu"))
    return (TargetWorld(analyzer.loader, rules, ""), ConfiguredWorld(analyzer, "", []))


@cases(150, 5_000)
def test_any_text_is_answered_or_refused(worlds: tuple[Any, ...], examples: int) -> None:
    def holds(text: str) -> None:
        for world in worlds:
            with suppress(UsageError, LoadingError):
                lines = render(evaluate(world, text), "dot", world.needs, lambda node: {})
                assert all("\n" not in line for line in lines)

    run_property(examples, expressions(), holds)


@pytest.mark.parametrize(
    "text",
    ["(" * 5000, "deps(" * 5000 + "a" + ")" * 5000],
)
def test_an_expression_that_is_nested_too_deep_is_refused(worlds: tuple[Any, ...], text: str) -> None:
    for world in worlds:
        with pytest.raises(UsageError, match=r"query, column \d+: expected at most 100 levels, got "):
            evaluate(world, text)


def test_a_hundred_levels_and_thousands_of_operators_are_not_too_deep(worlds: tuple[Any, ...]) -> None:
    for world in worlds:
        assert evaluate(world, "(" * 99 + "a.txt" + ")" * 99) == {"//:a.txt"}
        assert evaluate(world, " + ".join(["//:cpu"] * 3000)) == {"//:cpu"}
        assert evaluate(world, "//:cpu" + " - //:cpu" * 3000) == set()


@pytest.mark.parametrize("pattern", ["(", "a{99999999999}", "*", "(" * 5000 + ")" * 5000, "[z-a]"])
def test_invalid_regular_expressions_are_refused_in_one_line(pattern: str, recwarn: pytest.WarningsRecorder) -> None:
    with pytest.raises(UsageError, match="is not a regular expression: ") as caught:
        compiled(pattern)
    assert len(str(caught.value)) < 300
    assert not recwarn.list
