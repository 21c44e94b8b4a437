"""Changes of contents alone: the answer of comparing both revisions, without looking at the base."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from modelbuild.affected import affected as module
from modelbuild.affected import compare
from modelbuild.affected.affected import Affected, affected

BUILD = {
    "MODELBUILD.toml": 'rules = ["//tools/rules"]\n',
    "BUILD.toml": """
[package]
default_visibility = ["//visibility:public"]
[[word]]
name = "w"
word = "hello"
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
    "a/m.py": {"//a:py"},
    "b/one.txt": {"//b:split", "//b:last"},
    "b/two.txt": {"//b:split", "//b:last"},
    "b/three.txt": {"//b:alone"},
    "README.md": set(),
}


class Compared:
    """`both` compares the quick result with that of comparing both revisions."""

    def __init__(self, repository: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.repository = repository
        self._patch = monkeypatch
        repository.write(BUILD)
        (repository.root / "a/link").symlink_to("x.txt")
        repository.commit()

    def ask(self) -> Affected:
        return affected(self.repository.workspace(), ["//..."], "", "HEAD")

    def quick(self) -> Affected:
        def refuse(*_: object) -> Any:
            raise AssertionError("the base was laid out")

        with self._patch.context() as patch:
            patch.setattr(compare, "lay_out", refuse)
            return self.ask()

    def in_full(self) -> Affected:
        with self._patch.context() as patch:
            patch.setattr(module, "only_contents", lambda change: False)
            return self.ask()

    def both(self) -> set[str]:
        quick = self.quick()
        assert self.in_full() == quick
        return {each.label for each in quick.targets}


@pytest.fixture
def compared(repository_of_models: Any, monkeypatch: pytest.MonkeyPatch) -> Compared:
    return Compared(repository_of_models, monkeypatch)


@pytest.mark.parametrize("path", TOUCHED)
def test_readers_of_a_changed_file_are_touched(compared: Compared, path: str) -> None:
    compared.repository.write({path: "# changed\n"})
    assert compared.both() == TOUCHED[path]


def test_several_files_and_an_executable_bit(compared: Compared) -> None:
    compared.repository.write({"b/three.txt": "3"})
    (compared.repository.root / "a/m.py").chmod(0o755)
    assert compared.both() == {"//b:alone", "//a:py"}


def test_a_file_that_git_ignores_counts_as_changed(compared: Compared) -> None:
    """Nobody knows what it was."""
    compared.repository.write({".gitignore": "*.ignored.txt\n"})
    compared.repository.commit()
    compared.repository.write({"a/some.ignored.txt": "i", "b/three.txt": "3"})
    assert compared.both() == {"//a:files", "//a:whole", "//b:last", "//b:alone"}


@pytest.mark.parametrize(("link", "to", "named"), [("a/up", "../../up.txt", "up"), ("a/more", "../../more", "more/up")])
@pytest.mark.parametrize("absolute", [False, True], ids=["relative", "absolute"])
def test_a_link_out_of_the_workspace_is_what_it_leads_to(
    compared: Compared, link: str, to: str, named: str, absolute: bool
) -> None:
    repository = compared.repository
    (repository.top / "more").mkdir()
    for name in ("up.txt", "more/up"):
        (repository.top / name).write_text("up")
    (repository.root / link).symlink_to((repository.root / "a" / to).resolve() if absolute else to)
    repository.write({"a/BUILD.toml": BUILD["a/BUILD.toml"].replace('"link"', f'"{named}"')})
    repository.commit()
    repository.write({"b/three.txt": "3"})
    assert {each.label for each in compared.quick().targets} == {"//b:alone"}
    for name in ("up.txt", "more/up"):
        (repository.top / name).write_text("changed")
    assert {each.label for each in compared.quick().targets} == {"//b:alone", "//a:linked"}
    assert {each.label for each in compared.in_full().targets} == {"//b:alone", "//a:linked"}


def test_a_build_file_may_be_a_link_out_of_the_workspace(compared: Compared) -> None:
    repository = compared.repository
    (repository.root / "b/BUILD.toml").rename(repository.top / "b.toml")
    (repository.root / "b/BUILD.toml").symlink_to("../../b.toml")
    repository.commit()
    with (repository.top / "b.toml").open("a") as file:
        file.write("# changed\n")
    with pytest.raises(AssertionError, match="the base was laid out"):
        compared.quick()


def _link(root: Any) -> None:
    (root / "a/link").unlink()
    (root / "a/link").symlink_to("m.py")


OTHERS: dict[str, Callable[[Any], object]] = {
    "a new file": lambda root: (root / "a/y.txt").write_text("y"),
    "a file less": lambda root: (root / "a/x.txt").unlink(),
    "a file that becomes a link": lambda root: (
        (root / "b/two.txt").unlink(),
        (root / "b/two.txt").symlink_to("one.txt"),
    ),
    "a link": _link,
    "a BUILD file": lambda root: (root / "b/BUILD.toml").open("a").write("# comment\n"),
    "the workspace": lambda root: (root / "MODELBUILD.toml").open("a").write("[build]\n"),
    "a rule": lambda root: (root / "tools/rules/cat.py").open("a").write("# comment\n"),
    "a step": lambda root: (root / "tools/rules/steps/_text.py").write_text("def join(texts):\n    return ''\n"),
    "a lock": lambda root: (root / "requirements.lock").write_text("torch==1\n"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_any_other_change_is_compared_with_the_base(compared: Compared, what: str) -> None:
    compared.repository.write({"requirements.lock": "torch==2\n"})
    compared.repository.commit()
    OTHERS[what](compared.repository.root)
    with pytest.raises(AssertionError, match="the base was laid out"):
        compared.quick()
