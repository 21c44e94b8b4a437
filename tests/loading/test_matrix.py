"""One declaration with a matrix is many targets."""

from __future__ import annotations

from typing import Any

import tomli
from hypothesis import given
from hypothesis import strategies as st

from modelbuild.errors import Location
from modelbuild.labels import Label
from modelbuild.loading.matrix import matrix_of
from modelbuild.loading.matrix_expansion import expand_matrix
from modelbuild.workspace.toml_document import Document

from .conftest import MakeLoader


def expand(text: str) -> list[dict[str, Any]]:
    document, declaration = Document("BUILD.toml", text), tomli.loads(text)
    return [dict(v) for v in expand_matrix(document, (), declaration, matrix_of(document, (), declaration, {}))]


def test_every_combination_in_the_order_of_the_axes() -> None:
    found = expand("name = 'net-{precision}-{size}'\nmatrix = { precision = ['fp32', 'fp16'], size = [224, 320] }")
    assert [v["name"] for v in found] == ["net-fp32-224", "net-fp32-320", "net-fp16-224", "net-fp16-320"]
    assert all(list(v) == ["name"] for v in found)


def test_a_string_that_is_one_placeholder_keeps_the_type() -> None:
    text = """
    name = "{n}{on}{x}"
    a = "{n}"
    b = ["{on}", { c = "{x}", d = "at {on}, {n}, {x}" }]
    e = [1, 2.5, true]
    matrix = { n = [224], on = [true], x = [0.5] }
    """
    assert expand(text) == [
        {
            "name": "224true0.5",
            "a": 224,
            "b": [True, {"c": 0.5, "d": "at true, 224, 0.5"}],
            "e": [1, 2.5, True],
        }
    ]


def test_a_name_is_text_even_when_the_axis_is_not() -> None:
    assert [v["name"] for v in expand("name = '{n}'\nmatrix.n = [1, 2]")] == ["1", "2"]


def test_doubled_braces_are_braces() -> None:
    assert expand("name = 'a{n}'\na = '{{n}} {{{n}}}'\nmatrix.n = [1]")[0]["a"] == "{n} {1}"


def test_exclude_takes_out_what_matches_all_that_an_entry_says() -> None:
    text = """
    name = "{a}{b}{c}"
    matrix = { a = [1, 2], b = ["x", "y"], c = [true, false], exclude = [{ a = 1, b = "x" }, { c = false }] }
    """
    assert [v["name"] for v in expand(text)] == ["1ytrue", "2xtrue", "2ytrue"]


def test_an_axis_need_not_be_in_the_name_when_names_differ_without_it() -> None:
    text = "name = 'n{a}'\nx = '{b}'\nmatrix = { a = [1, 2], b = [1, 2], exclude = [{a=1,b=2}, {a=2,b=1}] }"
    assert expand(text) == [{"name": "n1", "x": 1}, {"name": "n2", "x": 2}]


@given(
    st.dictionaries(
        st.sampled_from("abc"), st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True), min_size=1
    )
)
def test_a_placeholder_is_replaced_by_its_axis_alone(axes: dict[str, list[int]]) -> None:
    name = "-".join(f"{{{axis}}}" for axis in axes)
    declaration = {"name": name, "v": {a: f"{{{a}}}" for a in axes}, "matrix": axes}
    document = Document("BUILD.toml", "")
    found = expand_matrix(document, (), declaration, matrix_of(document, (), declaration, {}))
    assert len({v["name"] for v in found}) == len(found)
    for variant in found:
        assert variant["name"] == "-".join(str(variant["v"][axis]) for axis in axes)
        assert all(variant["v"][axis] in values for axis, values in axes.items())


def test_expanded_targets_stand_at_their_declaration(make_loader: MakeLoader) -> None:
    loader = make_loader(
        {"m/BUILD.toml": "[[filegroup]]\nname = 'f{n}'\ntags = ['t{n}']\nvisibility = ['//p{n}']\nmatrix.n = [1, 2]\n"}
    )
    package = loader.package("m")
    assert list(package.targets) == ["f1", "f2"]
    second = loader.target(Label("m", "f2"))
    assert second.tags == ("t2",)
    assert second.visibility == ("//p2:__pkg__",)
    assert second.attributes == {}
    assert second.location() == Location("m/BUILD.toml", 1, 1)
    assert second.location(("tags",)) == Location("m/BUILD.toml", 3, 1)


def test_without_a_matrix_braces_mean_nothing(make_loader: MakeLoader) -> None:
    loader = make_loader({"m/BUILD.toml": "[[filegroup]]\nname = 'f'\nx = '{n} }{'\n"})
    assert loader.target(Label("m", "f")).attributes == {"x": "{n} }{"}


FAMILY = """
[[torch_model]]
name = "net_{size}_{stack}"
matrix = MATRIX
kwargs = { size = "{size}" }
tags = ["{stack}"]

[[pte_program]]
name = "program_{size}_{stack}"
matrix = MATRIX
model = ":net_{size}_{stack}"
"""
AXES = {"size": "[1, 2]", "stack": '["x", "y"]', "exclude": '[{ size = 2, stack = "y" }]'}


def test_targets_of_a_named_matrix_are_those_of_the_inline_form(make_loader: MakeLoader) -> None:
    """The declaration may come before or after the targets that name it."""
    inline = FAMILY.replace("MATRIX", "{ " + ", ".join(f"{axis} = {values}" for axis, values in AXES.items()) + " }")
    named = FAMILY.replace("MATRIX", '"family"')
    table = '[[matrix]]\nname = "family"\n' + "".join(f"{axis} = {values}\n" for axis, values in AXES.items())
    loader = make_loader({"a/BUILD.toml": inline, "b/BUILD.toml": table + named, "c/BUILD.toml": named + table})

    def declared(package: str) -> list[tuple[object, ...]]:
        targets = loader.package(package).targets.values()
        return [(each.label.name, each.rule, each.attributes, each.tags, each.path) for each in targets]

    assert declared("a") == declared("b") == declared("c")
    assert [name for name, *_ in declared("b")][2:4] == ["net_2_x", "program_1_x"]
    assert loader.target(Label("b", "program_2_x")).location() == Location("b/BUILD.toml", 13, 1)


def test_a_matrix_may_be_called_like_a_target_and_need_not_be_named(make_loader: MakeLoader) -> None:
    package = make_loader({"BUILD.toml": "[[matrix]]\nname = 'f'\na = [1]\n[[filegroup]]\nname = 'f'\n"}).package("")
    assert list(package.targets) == ["f"]
    assert package.matrices["f"].combinations == [{"a": 1}]
