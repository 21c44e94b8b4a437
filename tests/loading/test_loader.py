"""Packages and targets are loaded once; for a missing one the error names the nearest spelling."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modelbuild.errors import LoadingError, Location, UsageError
from modelbuild.labels import Label

from .conftest import MakeLoader

AT = Location("x/BUILD.toml", 3, 4)
GROUP = "[[filegroup]]\nname = '{}'\n"


def test_a_package_and_its_targets(make_loader: MakeLoader) -> None:
    text = """
[package]
default_visibility = ["//visibility:public"]
[[filegroup]]
name = "files"
srcs = ["a", { select = { default = 1 } }]
[[torch_model]]
name = "net"
tags = ["manual", "big"]
visibility = ["//visibility:private"]
"""
    loader = make_loader({"m/n/BUILD.toml": text})
    package = loader.package("m/n")
    assert (package.name, package.file) == ("m/n", "m/n/BUILD.toml")
    files, net = package.targets.values()
    assert (files.label, files.rule, files.path) == (Label("m/n", "files"), "filegroup", ("filegroup", 0))
    assert files.attributes == {"srcs": ["a", {"select": {"default": 1}}]}
    assert (files.visibility, files.tags) == (("//visibility:public",), ())
    assert (net.label, net.rule, net.attributes) == (Label("m/n", "net"), "torch_model", {})
    assert (net.visibility, net.tags) == (("//visibility:private",), ("manual", "big"))
    assert net.file == "m/n/BUILD.toml"
    assert net.location() == Location("m/n/BUILD.toml", 7, 1)
    assert files.location(("srcs", 1, "select")) == Location("m/n/BUILD.toml", 6, 16)
    assert loader.package("m/n") is package
    assert loader.target(Label("m/n", "net"), lambda: AT) is net


def test_a_package_at_the_root(make_loader: MakeLoader) -> None:
    loader = make_loader({"BUILD.toml": GROUP.format("a")})
    assert loader.target(Label("", "a")).file == "BUILD.toml"


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (Label("models", "detectr"), "no target 'detectr' in //models; did you mean 'detector'?"),
        (Label("models", "zzz"), "no target 'zzz' in //models"),
        (Label("modles", "x"), "no package //modles: there is no modles/BUILD.toml; did you mean '//models'?"),
        (Label("models/s", "x"), "no package //models/s: there is no models/s/BUILD.toml; did you mean '//models'?"),
        (
            Label("deep/fcae", "x"),
            "no package //deep/fcae: there is no deep/fcae/BUILD.toml; did you mean '//deep/face'?",
        ),
        (Label("", "x"), "no package //: there is no BUILD.toml"),
        (Label("other", "x"), "//other is in another workspace, other"),
        (Label("other/a", "x"), "//other/a is in another workspace, other"),
    ],
)
def test_missing_targets(make_loader: MakeLoader, label: Label, message: str) -> None:
    loader = make_loader(
        {
            "models/BUILD.toml": GROUP.format("detector"),
            "models/s/net.py": "",
            "deep/face/BUILD.toml": "",
            "other/MODELBUILD.toml": "",
            "other/BUILD.toml": "",
            "other/a/BUILD.toml": "",
        }
    )
    with pytest.raises(UsageError) as asked:
        loader.target(label)
    assert str(asked.value) == message
    with pytest.raises(LoadingError) as referred:
        loader.target(label, lambda: AT)
    assert str(referred.value) == f"x/BUILD.toml:3:4: {message}"


def test_a_folder_called_build_toml_is_no_package(make_loader: MakeLoader) -> None:
    loader = make_loader({"a/BUILD.toml/x": ""})
    with pytest.raises(UsageError, match=r"^no package //a: there is no a/BUILD\.toml"):
        loader.package("a")


def test_packages_below_leaves_out_what_is_not_the_workspaces_own(make_loader: MakeLoader, tmp_path: Path) -> None:
    own = ["b", "a", "a/x/y", "a-b"]
    others = [".git/x", "a/.hidden", "env/lib", "other/z", "web/node_modules/p", "a/__pycache__", "modelbuild-out/x"]
    files = {f"{name}/BUILD.toml": "" for name in [*own, *others]}
    loader = make_loader({**files, "BUILD.toml": "", "env/pyvenv.cfg": "", "other/MODELBUILD.toml": "", "c/x.txt": ""})
    (tmp_path / "a/loop").symlink_to(tmp_path)
    assert loader.packages_below("") == ["", "a", "a-b", "a/x/y", "b"]
    assert loader.packages_below("a") == ["a", "a/x/y"]
    assert loader.packages_below("a/x") == ["a/x/y"]
    assert loader.packages_below("c") == []
    assert loader.packages_below("nothing") == []
    assert loader.packages_below("other/z") == []


def test_a_package_in_a_folder_that_no_label_can_name(make_loader: MakeLoader) -> None:
    loader = make_loader({"my models/BUILD.toml": ""})
    with pytest.raises(LoadingError) as caught:
        loader.packages_below("")
    assert str(caught.value) == (
        "my models/BUILD.toml:1:1: folder 'my models' can't be a package; expected letters, digits and any of _.+@-"
    )


def test_read_files_are_recorded(make_loader: MakeLoader, tmp_path: Path) -> None:
    loader = make_loader({"a/b/BUILD.toml": GROUP.format("x"), "a/b/d/f.txt": "", "c/g.txt": ""})
    status = os.stat(tmp_path / "a/b/BUILD.toml")
    loader.package("a/b")
    assert set(loader.files_read()) == {"MODELBUILD.toml", "a/b/BUILD.toml"}
    assert loader.files_read()["a/b/BUILD.toml"] == (status.st_size, status.st_ctime_ns, status.st_ino)
    assert loader.files_absent() == {"a/MODELBUILD.toml", "a/b/MODELBUILD.toml"}
    assert set(loader.folders_listed()) == set()
    assert loader.source("a/b", "d/f.txt", lambda: AT) == "a/b/d/f.txt"
    assert loader.files_absent() >= {"a/b/d/BUILD.toml", "a/b/d/MODELBUILD.toml"}
    assert loader.glob("a/b", ["d/*"], [], False, lambda: AT) == ("a/b/d/f.txt",)
    assert set(loader.folders_listed()) == {"a/b", "a/b/d"}
    loader.packages_below("")
    assert set(loader.folders_listed()) == {"", "a", "a/b", "a/b/d", "c"}


def test_a_listing_serves_in_place_of_further_looks(make_loader: MakeLoader) -> None:
    loader = make_loader({"a/b/BUILD.toml": "", "a/b/d/f.txt": ""})
    loader.packages_below("")
    loader.package("a/b")
    assert loader.source("a/b", "d/f.txt", lambda: AT) == "a/b/d/f.txt"
    with pytest.raises(UsageError, match=r"^no package //a: there is no a/BUILD\.toml"):
        loader.package("a")
    assert loader.files_absent() == set()
    assert set(loader.files_read()) == {"MODELBUILD.toml", "a/b/BUILD.toml"}
