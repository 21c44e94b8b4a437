"""Target patterns mean the same as in Bazel."""

from __future__ import annotations

import pytest

from modelbuild.errors import LoadingError, UsageError
from modelbuild.loading.loader import Loader
from modelbuild.loading.patterns import expand_patterns

from .conftest import MakeLoader


def group(*names: str, manual: tuple[str, ...] = ()) -> str:
    plain = "".join(f"[[filegroup]]\nname = '{name}'\n" for name in names)
    return plain + "".join(f"[[pte_program]]\nname = '{name}'\ntags = ['manual']\n" for name in manual)


@pytest.fixture
def loader(make_loader: MakeLoader) -> Loader:
    return make_loader(
        {
            "BUILD.toml": group("root"),
            "a/BUILD.toml": group("y", "x", "a", manual=("slow",)),
            "a/b/BUILD.toml": group("b", "deep"),
            "a/none/file.txt": "",
            "empty/BUILD.toml": "",
        }
    )


@pytest.mark.parametrize(
    ("patterns", "current", "labels"),
    [
        ("//a:x", "", "//a:x"),
        ("//a", "", "//a:a"),
        ("//a/b", "", "//a/b:b"),
        ("//:root", "a", "//:root"),
        (":x", "a", "//a:x"),
        ("x", "a", "//a:x"),
        ("root", "", "//:root"),
        ("b:deep", "a", "//a/b:deep"),
        ("a/b:deep", "", "//a/b:deep"),
        ("a/b", "", "//a/b:b"),
        ("//a:all", "", "//a:a //a:x //a:y"),
        ("//a:*", "", "//a:a //a:x //a:y"),
        (":all", "a", "//a:a //a:x //a:y"),
        ("all", "a", "//a:a //a:x //a:y"),
        ("b:all", "a", "//a/b:b //a/b:deep"),
        ("//a/...", "", "//a:a //a:x //a:y //a/b:b //a/b:deep"),
        ("//a/...:all", "", "//a:a //a:x //a:y //a/b:b //a/b:deep"),
        ("a/...", "", "//a:a //a:x //a:y //a/b:b //a/b:deep"),
        ("b/...", "a", "//a/b:b //a/b:deep"),
        ("...", "a/b", "//a/b:b //a/b:deep"),
        ("...", "", "//:root //a:a //a:x //a:y //a/b:b //a/b:deep"),
        ("//...", "a", "//:root //a:a //a:x //a:y //a/b:b //a/b:deep"),
        ("//...:*", "a", "//:root //a:a //a:x //a:y //a/b:b //a/b:deep"),
        ("//:all", "", "//:root"),
        ("//empty:all", "", ""),
        ("//a:y //a:x //a:y", "", "//a:y //a:x"),
        ("//a/... -//a:x", "", "//a:a //a:y //a/b:b //a/b:deep"),
        ("//a/... -//a/b/...", "", "//a:a //a:x //a:y"),
        ("... -:x -b:all", "a", "//a:a //a:y"),
        ("//a:all -x x", "a", "//a:a //a:y //a:x"),
        ("//a:x -//a:y", "", "//a:x"),
        ("//a:slow", "", "//a:slow"),
        ("//a:slow //a:all", "", "//a:slow //a:a //a:x //a:y"),
        ("//a:slow -//a/...", "", ""),
        ("//a:x -//...", "", ""),
    ],
)
def test_patterns_name_targets(loader: Loader, patterns: str, current: str, labels: str) -> None:
    assert [str(target.label) for target in expand_patterns(loader, patterns.split(), current)] == labels.split()


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ("//a:xx", "no target 'xx' in //a; did you mean 'x'?"),
        ("//a:x -//a:sloww", "no target 'sloww' in //a; did you mean 'slow'?"),
        ("//emtpy:all", "no package //emtpy: there is no emtpy/BUILD.toml; did you mean '//empty'?"),
        ("//emtpy/...", "no package in //emtpy/...; did you mean '//empty'?"),
        ("//a/none/...", "no package in //a/none/...; did you mean '//a/b'?"),
        ("//a/none", "no package //a/none: there is no a/none/BUILD.toml; did you mean '//a/b'?"),
        ("-//a:x", "'-//a:x' has nothing to subtract from; expected a pattern before it, such as //..."),
        *(
            (bad, f"{bad!r} is not a target pattern; expected //package:name, :name, //package:all or //package/...")
            for bad in ("/a:x", "//a:x:y", "//a:", ":", "-", "//", "a/", "//a//b:all", "//../a:all", "./a:x",
                        "//a/...:x", "//a/.../b", "//a*:all", "//a /...", "//a/..", "/...", "@r//a:b")
        ),
    ],
)  # fmt: skip
def test_invalid_and_empty_patterns(loader: Loader, patterns: str, message: str) -> None:
    for current in ("", "a"):
        with pytest.raises(UsageError) as caught:
            expand_patterns(loader, patterns.split(" ") if " -" in patterns else [patterns], current)
        assert str(caught.value) == message


def test_a_broken_package_breaks_the_wildcard_that_holds_it(make_loader: MakeLoader) -> None:
    loader = make_loader({"a/BUILD.toml": group("x"), "b/BUILD.toml": "[[filegroup]]\n"})
    assert len(expand_patterns(loader, ["//a/..."])) == 1
    with pytest.raises(LoadingError, match=r"^b/BUILD.toml:1:1: filegroup without a name"):
        expand_patterns(loader, ["//..."])


def test_a_workspace_without_packages(make_loader: MakeLoader) -> None:
    with pytest.raises(UsageError) as caught:
        expand_patterns(make_loader({}), ["//..."])
    assert str(caught.value) == "no package in //..."
