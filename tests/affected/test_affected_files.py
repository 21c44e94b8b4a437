"""Changed contents of files that targets read."""

from __future__ import annotations

from typing import Any

import pytest

from modelbuild.affected import git
from modelbuild.affected.affected import Affected, affected
from modelbuild.labels import Label

BUILD = {
    "MODELBUILD.toml": 'rules = ["//tools/rules"]\n',
    "BUILD.toml": """
[package]
default_visibility = ["//visibility:public"]
[[word]]
name = "w"
word = "hello"
[[device_target]]
name = "d1"
arch = "x86_64"
[[device_target]]
name = "d2"
arch = "aarch64"
""",
    "a/BUILD.toml": """
[package]
default_visibility = ["//visibility:public"]
[[filegroup]]
name = "files"
srcs = { glob = ["*.txt"] }
[[cat]]
name = "whole"
srcs = [":files"]
word = "//:w"
[[cat]]
name = "py"
srcs = ["m.py"]
[[cat]]
name = "linked"
srcs = ["link"]
[[cat]]
name = "chosen"
srcs = { select = { "//:d1" = ["m.py"], default = ["x.txt"] } }
device = "//:d1"
""",
    "b/BUILD.toml": """
[[split]]
name = "split"
src = ["one.txt"]
extra = ["two.txt"]
[[cat]]
name = "last"
srcs = [":split", "//a:whole"]
[[cat]]
name = "alone"
srcs = ["three.txt"]
""",
    "a/x.txt": "x",
    "a/m.py": "import json\n",
    "b/one.txt": "one",
    "b/two.txt": "two",
    "b/three.txt": "three",
    "README.md": "read",
}
TOUCHED = {
    "a/x.txt": {"//a:files", "//a:whole", "//a:linked", "//b:last"},
    "a/m.py": {"//a:py", "//a:chosen"},
    "b/one.txt": {"//b:split", "//b:last"},
    "b/two.txt": {"//b:split", "//b:last"},
    "b/three.txt": {"//b:alone"},
    "README.md": set(),
}


class Repository:
    """`labels` returns the labels of affected targets."""

    def __init__(self, repository: Any) -> None:
        self.repository = repository
        repository.write(BUILD)
        (repository.root / "a/link").symlink_to("x.txt")
        repository.commit()

    def ask(self, devices: tuple[Label, ...] = ()) -> Affected:
        return affected(self.repository.workspace(), ["//..."], "", "HEAD", devices)

    def labels(self, devices: tuple[Label, ...] = ()) -> set[str]:
        return {each.label for each in self.ask(devices).targets}


@pytest.fixture
def compared(repository_of_models: Any) -> Repository:
    return Repository(repository_of_models)


@pytest.mark.parametrize("path", TOUCHED)
def test_readers_of_a_changed_file_are_touched(compared: Repository, path: str) -> None:
    compared.repository.write({path: "# changed\n"})
    assert compared.labels() == TOUCHED[path]


def test_several_files_and_an_executable_bit(compared: Repository) -> None:
    compared.repository.write({"b/three.txt": "3"})
    (compared.repository.root / "a/m.py").chmod(0o755)
    assert compared.labels() == {"//b:alone", "//a:py", "//a:chosen"}


def test_more_unchanged_files_than_links_to_one_file(compared: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git, "_MOST_LINKS", 2)
    compared.repository.write({"b/two.txt": "2"})
    assert compared.labels() == TOUCHED["b/two.txt"]
    folder = compared.repository.top.parent / "base"
    folder.mkdir()
    root = git.lay_out(git.find_change(compared.repository.root, "HEAD"), folder)
    unchanged = [root / path for path in ("README.md", "a/x.txt", "b/one.txt", "b/three.txt")]
    assert {path.stat().st_size for path in unchanged} == {0}
    assert max(path.stat().st_nlink for path in unchanged) == 2


def test_a_file_that_git_ignores_counts_as_changed(compared: Repository) -> None:
    """Nobody knows what it was."""
    compared.repository.write({".gitignore": "*.ignored.txt\n"})
    compared.repository.commit()
    compared.repository.write({"a/some.ignored.txt": "i", "b/three.txt": "3"})
    assert compared.labels() == {"//a:files", "//a:whole", "//b:last", "//b:alone"}


@pytest.mark.parametrize(("link", "to", "named"), [("a/up", "../../up.txt", "up"), ("a/more", "../../more", "more/up")])
@pytest.mark.parametrize("absolute", [False, True], ids=["relative", "absolute"])
def test_a_link_out_of_the_workspace_is_what_it_leads_to(
    compared: Repository, link: str, to: str, named: str, absolute: bool
) -> None:
    repository = compared.repository
    (repository.top / "more").mkdir()
    for name in ("up.txt", "more/up"):
        (repository.top / name).write_text("up")
    (repository.root / link).symlink_to((repository.root / "a" / to).resolve() if absolute else to)
    repository.write({"a/BUILD.toml": BUILD["a/BUILD.toml"].replace('"link"', f'"{named}"')})
    repository.commit()
    for name in ("up.txt", "more/up"):
        (repository.top / name).write_text("changed")
    assert compared.labels() == {"//a:linked"}


def test_each_device_is_asked_for_by_itself(compared: Repository) -> None:
    compared.repository.write({"a/x.txt": "1"})
    assert compared.labels(devices=(Label.parse("//:d2"),)) != compared.labels()


def test_a_changed_engine_touches_everything(compared: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    package = compared.repository.top / "lib/some_rules"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(package.parent))
    compared.repository.write({"MODELBUILD.toml": 'rules = ["//tools/rules", "some_rules"]\n'})
    compared.repository.commit()
    assert compared.labels() == set()
    (package / "__init__.py").write_text("# changed\n")
    assert compared.ask().everything


def test_byte_code_is_no_change_but_where_a_target_names_it(compared: Repository) -> None:
    named = BUILD["b/BUILD.toml"].replace('"three.txt"', '"three.txt", "__pycache__/x"')
    for text, touched in ((BUILD["b/BUILD.toml"], []), (named, ["//b:alone"])):
        compared.repository.write({"b/BUILD.toml": text})
        compared.repository.commit()
        compared.repository.write({"tools/rules/__pycache__/cat.cpython-311.pyc": "1", "b/__pycache__/x": "1"})
        assert sorted(compared.labels()) == touched
        compared.repository.git("clean", "--quiet", "--force", "-d")
