"""Visibility of targets to packages."""

from __future__ import annotations

import pytest

from modelbuild.errors import LoadingError, Location
from modelbuild.labels import Label
from modelbuild.loading.visibility import check_visible, parse_visibility, visible

from .conftest import MakeLoader


@pytest.mark.parametrize(
    ("entries", "who", "may"),
    [
        ([], "a", False),
        (["//visibility:private"], "a", False),
        (["//visibility:private"], "visibility", False),
        (["//visibility:public"], "a", True),
        (["//visibility:public"], "", True),
        (["//a"], "a", True),
        (["//a"], "a/b", False),
        (["//a"], "ab", False),
        (["//a"], "", False),
        (["//a:__pkg__"], "a", True),
        (["//a:__subpackages__"], "a", True),
        (["//a:__subpackages__"], "a/b/c", True),
        (["//a:__subpackages__"], "ab", False),
        (["//x", "//a:__subpackages__"], "a/b", True),
        (["//:__pkg__"], "", True),
        (["//:__pkg__"], "a", False),
        (["//:__subpackages__"], "a/b", True),
        ([":__subpackages__"], "own/below", True),
        ([":__subpackages__"], "other", False),
        ([":__pkg__"], "own/below", False),
    ],
)
def test_packages_that_may_depend_on_a_target(make_loader: MakeLoader, entries: list[str], who: str, may: bool) -> None:
    loader = make_loader({"own/BUILD.toml": f"[[filegroup]]\nname = 't'\nvisibility = {entries}\n"})
    target = loader.target(Label("own", "t"))
    assert visible(target, who) is may
    assert visible(target, "own")


def test_the_default_of_a_package_and_of_no_word_at_all(make_loader: MakeLoader) -> None:
    text = "[[filegroup]]\nname = 'open'\n[[filegroup]]\nname = 'shut'\nvisibility = []\n"
    loader = make_loader({"a/BUILD.toml": "package.default_visibility = ['//b']\n" + text, "c/BUILD.toml": text})
    assert loader.package("a").default_visibility == ("//b:__pkg__",)
    assert visible(loader.target(Label("a", "open")), "b")
    assert not visible(loader.target(Label("a", "shut")), "b")
    assert not visible(loader.target(Label("c", "open")), "b")


def test_an_error_tells_target_place_and_cure(make_loader: MakeLoader) -> None:
    loader = make_loader(
        {"a/BUILD.toml": "[[filegroup]]\nname = 'x'\n[[filegroup]]\nname = 'y'\nvisibility = ['//d']\n"}
    )
    for name, place in [("x", "a/BUILD.toml:1:1"), ("y", "a/BUILD.toml:5:1")]:
        target = loader.target(Label("a", name))
        with pytest.raises(LoadingError) as caught:
            check_visible(target, "b/c", lambda: Location("b/c/BUILD.toml", 7, 8))
        assert str(caught.value) == (
            f"b/c/BUILD.toml:7:8: //a:{name} is not visible from //b/c; "
            f"to allow it, add '//b/c:__pkg__' to its visibility at {place}"
        )
        check_visible(target, "a", lambda: Location("", 0, 0))


@pytest.mark.parametrize(
    "text", ["", "a", "a:__pkg__", ":x", "//a:x", "//a b", "//a/...", "//:", "//visibility:pubic", "//", "__pkg__"]
)
def test_invalid_entries(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected '//visibility:public', "):
        parse_visibility(text, "own")
