"""Selects choose by device, at any depth, and errors point into the branch that was chosen."""

from __future__ import annotations

import pytest

from modelbuild.errors import LoadingError, Location
from modelbuild.labels import Label
from modelbuild.loading.package import Target
from modelbuild.loading.select import resolve_selects, select_labels

from .conftest import MakeLoader

BUILD = """[[torch_model]]
name = "m"
size = { select = { ":a" = 1, "//devices:b" = 2, default = 3 } }
inputs = [
  { name = "x", shape = [1, { select = { ":a" = { d = [5, 6] }, default = { select = { ":b" = 7, default = 8 } } } }] },
]
plain = { b = [1, "two"] }

[torch_model.level.select]
":a" = "low"
"//devices:b" = "high"
"""

A = Label("p", "a")
B = Label("devices", "b")
C = Label("p", "c")


@pytest.fixture
def target(make_loader: MakeLoader) -> Target:
    return make_loader({"p/BUILD.toml": BUILD}).target(Label("p", "m"))


def test_the_value_for_the_device_is_chosen(target: Target) -> None:
    assert resolve_selects(target, A).attributes == {
        "size": 1,
        "inputs": [{"name": "x", "shape": [1, {"d": [5, 6]}]}],
        "plain": {"b": [1, "two"]},
        "level": "low",
    }
    chosen = resolve_selects(target, B).attributes
    assert (chosen["size"], chosen["inputs"][0]["shape"], chosen["level"]) == (2, [1, 8], "high")


@pytest.mark.parametrize(("device", "wanted"), [(C, "value for //p:c"), (None, "default, and no device is configured")])
def test_no_value_and_no_default(target: Target, device: Label | None, wanted: str) -> None:
    with pytest.raises(LoadingError) as caught:
        resolve_selects(target, device)
    assert str(caught.value) == f"p/BUILD.toml:9:20: this select has no {wanted}; it has //p:a, //devices:b"


def test_the_default_serves_without_a_device(make_loader: MakeLoader) -> None:
    target = make_loader({"BUILD.toml": "[[filegroup]]\nname='f'\nx.select = {default = 0, ':a' = 1}"}).target(
        Label("", "f")
    )
    assert resolve_selects(target, None).attributes == {"x": 0}
    assert resolve_selects(target, C).attributes == {"x": 0}
    assert resolve_selects(target, Label("", "a")).attributes == {"x": 1}


def test_places_are_inside_the_chosen_branch(target: Target) -> None:
    def place(device: Label, *path: str | int) -> tuple[int, int]:
        location = resolve_selects(target, device).location(path)
        assert location.path == "p/BUILD.toml"
        return location.line, location.column

    assert place(A, "size") == (3, 21)
    assert place(B, "size") == (3, 31)
    assert place(A, "inputs", 0, "name") == (5, 5)
    assert place(A, "inputs", 0, "shape", 1, "d", 1) == (5, 59)
    assert place(B, "inputs", 0, "shape", 1) == (5, 98)
    assert place(B, "level") == (11, 1)
    assert place(B, "plain", "b", 1) == (7, 19)
    assert place(B) == (1, 1)
    assert place(B, "missing") == (1, 1)


def test_labels_of_every_branch_are_told_with_their_places(target: Target) -> None:
    found = [(str(label), str(target.location(path))) for label, path in select_labels(target)]
    assert found == [
        ("//p:a", "p/BUILD.toml:3:21"),
        ("//devices:b", "p/BUILD.toml:3:31"),
        ("//p:a", "p/BUILD.toml:5:42"),
        ("//p:b", "p/BUILD.toml:5:88"),
        ("//p:a", "p/BUILD.toml:10:1"),
        ("//devices:b", "p/BUILD.toml:11:1"),
    ]


def test_the_declared_attributes_stay_as_they_are(target: Target) -> None:
    resolve_selects(target, A)
    assert target.attributes["size"] == {"select": {":a": 1, "//devices:b": 2, "default": 3}}
    assert target.location(("size",)) == Location("p/BUILD.toml", 3, 1)


def test_a_place_inside_a_select_inside_a_select(make_loader: MakeLoader) -> None:
    text = "[[filegroup]]\nname = 'f'\nx.select.default = { k = { select = { default = [\n  1,\n  2] } } }\n"
    resolved = resolve_selects(make_loader({"BUILD.toml": text}).target(Label("", "f")), None)
    assert resolved.attributes == {"x": {"k": [1, 2]}}
    assert resolved.location(("x", "k", 1)) == Location("BUILD.toml", 5, 3)
    assert resolved.location(("x",)) == Location("BUILD.toml", 3, 10)
