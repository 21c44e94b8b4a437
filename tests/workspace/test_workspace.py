"""Finding a workspace, reading its file, and defaults for unset values."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modelbuild.errors import EnvironmentProblem, LoadingError, Location, UsageError
from modelbuild.labels import Label
from modelbuild.workspace.workspace import DEFAULT_CACHE_SIZE, find_root, load_workspace

FULL = """
rules = ["company_rules", "//tools/rules"]

[build]
default_device = "//devices:desk"
jobs = 4
keep_going = true

[cache]
dir = ".cache/mb"
max_size = "1.5GiB"

[profile.ci]
jobs = 2
keep_going = false
device = ["//devices:a", "//devices:b"]
json = true

[profile.quick]
device = ":root"
"""


def test_everything_that_the_file_can_say(tmp_path: Path) -> None:
    (tmp_path / "MODELBUILD.toml").write_text(FULL)
    workspace = load_workspace(tmp_path, {})
    config = workspace.config
    assert workspace.root == tmp_path
    assert config.rules == ("company_rules", "//tools/rules")
    assert workspace.rule_locations()["//tools/rules"] == Location("MODELBUILD.toml", 2, 27)
    assert config.default_device == Label("devices", "desk")
    assert (config.jobs, config.keep_going) == (4, True)
    assert config.cache_dir == tmp_path / ".cache/mb"
    assert config.cache_size == 3 << 29
    assert config.profiles == {
        "ci": {
            "jobs": 2,
            "keep_going": False,
            "devices": ("//devices:a", "//devices:b"),
            "json": True,
        },
        "quick": {"devices": ("//:root",)},
    }


def test_an_empty_file_leaves_every_default(tmp_path: Path) -> None:
    (tmp_path / "MODELBUILD.toml").touch()
    config = load_workspace(tmp_path, {"XDG_CACHE_HOME": "/xdg"}).config
    assert config.rules == ()
    assert config.default_device is None
    assert (config.jobs, config.keep_going) == (None, False)
    assert config.cache_dir == Path("/xdg/modelbuild")
    assert config.cache_size == DEFAULT_CACHE_SIZE
    assert config.profiles == {}


def test_the_stamp_is_of_the_file_that_was_read(tmp_path: Path) -> None:
    file = tmp_path / "MODELBUILD.toml"
    file.write_text(FULL)
    status = file.stat()
    assert load_workspace(tmp_path, {}).stamp == (status.st_size, status.st_ctime_ns, status.st_ino)


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    file = tmp_path / "MODELBUILD.toml"

    def cache_dir(text: str, environ: dict[str, str]) -> str:
        file.write_text(text)
        return str(load_workspace(tmp_path, environ).config.cache_dir)

    written = "[cache]\ndir = '/written'"
    assert cache_dir(written, {"MODELBUILD_CACHE_DIR": "/given", "XDG_CACHE_HOME": "/xdg"}) == "/given"
    assert cache_dir(written, {"MODELBUILD_CACHE_DIR": "", "XDG_CACHE_HOME": "/xdg"}) == "/written"
    assert cache_dir("cache.dir = '~/mine'", {}) == "/home/someone/mine"
    assert cache_dir("", {"MODELBUILD_CACHE_DIR": "~/given"}) == "/home/someone/given"
    assert cache_dir("", {"MODELBUILD_CACHE_DIR": "here"}) == f"{os.getcwd()}/here"
    assert cache_dir("", {"XDG_CACHE_HOME": "relative-means-nothing"}) == "/home/someone/.cache/modelbuild"
    assert cache_dir("", {}) == "/home/someone/.cache/modelbuild"


def test_no_home_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "MODELBUILD.toml").write_text("cache.dir = '~nobody-of-that-name/x'")
    with pytest.raises(EnvironmentProblem) as caught:
        load_workspace(tmp_path, {})
    assert str(caught.value) == "no home folder for the cache '~nobody-of-that-name/x'; set MODELBUILD_CACHE_DIR"


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("4096", 4096),
        ("'4096'", 4096),
        ("'10B'", 10),
        ("'2kB'", 2000),
        ("'2KB'", 2000),
        ("'500 MB'", 500_000_000),
        ("'20GiB'", 20 << 30),
        ("'0.5TiB'", 1 << 39),
    ],
)
def test_sizes(tmp_path: Path, written: str, size: int) -> None:
    (tmp_path / "MODELBUILD.toml").write_text(f"cache.max_size = {written}")
    assert load_workspace(tmp_path, {}).config.cache_size == size


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("'20G'", 'a size such as "20GiB" or "500 MB", or bytes, got \'20G\''),
        ("0", "a size from 1 byte to 8 EiB, got 0"),
    ],
)
def test_invalid_sizes(tmp_path: Path, written: str, problem: str) -> None:
    (tmp_path / "MODELBUILD.toml").write_text(f"cache.max_size = {written}")
    with pytest.raises(LoadingError) as caught:
        load_workspace(tmp_path, {})
    assert str(caught.value) == f"MODELBUILD.toml:1:7: 'max_size': expected {problem}"


def test_the_root_is_the_nearest_folder_upwards(tmp_path: Path) -> None:
    for folder in (".", "a/inner"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "MODELBUILD.toml").touch()
    (tmp_path / "a/inner/x/y").mkdir(parents=True)
    assert find_root(tmp_path) == tmp_path
    assert find_root(tmp_path / "a") == tmp_path
    assert find_root(tmp_path / "a/inner/x/y") == tmp_path / "a/inner"


def test_no_root(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        find_root(tmp_path)
    assert str(caught.value) == (
        f"no MODELBUILD.toml in {tmp_path} or a folder above it; expected one at the root of the workspace"
    )
    with pytest.raises(UsageError, match=r"^no folder '.*/missing'$"):
        find_root(tmp_path / "missing")


def test_the_package_of_a_folder(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "a/b").mkdir(parents=True)
    (root / "MODELBUILD.toml").touch()
    (tmp_path / "link").symlink_to(root)
    (root / "..x").mkdir()
    for opened in (root, tmp_path / "link"):
        workspace = load_workspace(opened, {})
        assert workspace.package_of(root) == ""
        assert workspace.package_of(root / "a/b") == "a/b"
        assert workspace.package_of(tmp_path / "link/a") == "a"
        assert workspace.package_of(root / "..x") == "..x"
        assert workspace.package_of(tmp_path) == ""


def test_a_folder_in_place_of_the_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "MODELBUILD.toml").mkdir()
    with pytest.raises(LoadingError) as caught:
        load_workspace(tmp_path, {})
    assert str(caught.value) == "MODELBUILD.toml:1:1: can't be read: Is a directory"
