"""Labels are parsed in Bazel's syntax; any other text is refused."""

from __future__ import annotations

import pytest

from modelbuild.errors import UsageError
from modelbuild.labels import Label, is_package_name, is_target_name


@pytest.mark.parametrize(
    ("text", "package", "label"),
    [
        ("//models:detector", "x", Label("models", "detector")),
        ("//models/face", "x", Label("models/face", "face")),
        ("//:root", "x", Label("", "root")),
        (":a", "x/y", Label("x/y", "a")),
        ("a", "x/y", Label("x/y", "a")),
        ("a", "", Label("", "a")),
        ("//a-b.c/d+e@f:g=h_i.j-k+l@m", "", Label("a-b.c/d+e@f", "g=h_i.j-k+l@m")),
    ],
)
def test_a_label_is_read_relative_to_a_package(text: str, package: str, label: Label) -> None:
    assert Label.parse(text, package) == label
    assert Label.parse(str(label), "elsewhere") == label


@pytest.mark.parametrize(
    "text",
    [
        "", ":", "//", "//:", "//a:", "///a", "//a//b:c", "//a/:c", "/a:b", "a:b", "a/b", "//a:b/c", "//a:b:c",
        "//a b:c", "//..:a", "//a/../b:c", "//a/.:b", "//a/...", "...", "//a:..", ".", "//a:*", "@r//a:b", "a\n",
        "//a\n:b", "//é:a",
    ],
)  # fmt: skip
def test_invalid_labels_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        Label.parse(text, "pkg")
    assert str(caught.value) == f"{text!r} is not a label; expected //package:name, //package or :name"


def test_labels_sort_by_package_then_name() -> None:
    assert sorted([Label("b", "a"), Label("a", "z"), Label("a", "b")]) == [
        Label("a", "b"),
        Label("a", "z"),
        Label("b", "a"),
    ]


def test_names_of_packages_and_targets() -> None:
    assert is_package_name("")
    assert is_package_name("a/b.c")
    assert not is_package_name("a/")
    assert not is_package_name("a/...")
    assert is_target_name("a=b")
    assert not is_target_name("a/b")
    assert not is_target_name("...")
