"""Changes of contents alone: the answer of comparing both revisions, without looking at the base."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from modelbuild.affected import affected as module
from modelbuild.affected import compare
from modelbuild.affected.affected import Affected, affected
from modelbuild.errors import ModelbuildError
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
SOURCES = [name for name in BUILD if not name.endswith(".toml")]
TOUCHED = {
    "a/x.txt": {"//a:files", "//a:whole", "//a:linked", "//b:last"},
    "a/m.py": {"//a:py", "//a:chosen"},
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

    def ask(self, *patterns: str, since: str = "HEAD", devices: tuple[Label, ...] = ()) -> Affected:
        return affected(self.repository.workspace(), patterns or ("//...",), "", since, devices)

    def quick(self, *patterns: str, **options: Any) -> Affected:
        def refuse(*_: object) -> Any:
            raise AssertionError("the base was laid out")

        with self._patch.context() as patch:
            patch.setattr(compare, "lay_out", refuse)
            return self.ask(*patterns, **options)

    def in_full(self, *patterns: str, **options: Any) -> Affected:
        with self._patch.context() as patch:
            patch.setattr(module, "only_contents", lambda change: False)
            return self.ask(*patterns, **options)

    def both(self, *patterns: str, **options: Any) -> set[str]:
        quick = self.quick(*patterns, **options)
        assert self.in_full(*patterns, **options) == quick
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
    assert compared.both() == {"//b:alone", "//a:py", "//a:chosen"}


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


@pytest.mark.parametrize(
    "patterns",
    [
        ["//..."],
        ["//b/...", "//a:linked"],
        ["//a:py", "//a:whole", "//a:all"],
        ["//...", "-//b:last", "-//a/..."],
        ["//...", "-//b:last", "//b:last"],
        ["//b:alone"],
    ],
)
def test_patterns_choose_the_same_in_the_same_order(compared: Compared, patterns: list[str]) -> None:
    compared.repository.write({"a/x.txt": "1", "a/m.py": "# 1\n", "b/one.txt": "1"})
    compared.both(*patterns)


@pytest.mark.parametrize("pattern", ["//nowhere/...", "//nowhere:all", "//b:nothing", "-//b:last"])
def test_patterns_without_a_target_are_errors(compared: Compared, pattern: str) -> None:
    with pytest.raises(ModelbuildError):
        compared.ask(pattern)


def test_each_device_is_asked_for_by_itself(compared: Compared) -> None:
    compared.repository.write({"a/x.txt": "1"})
    assert compared.both(devices=(Label.parse("//:d2"),)) != compared.both()


def test_a_changed_engine_touches_everything(compared: Compared, monkeypatch: pytest.MonkeyPatch) -> None:
    package = compared.repository.top / "lib/some_rules"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(package.parent))
    compared.repository.write({"MODELBUILD.toml": 'rules = ["//tools/rules", "some_rules"]\n'})
    compared.repository.commit()
    assert [each.label for each in compared.ask().targets] == []
    (package / "__init__.py").write_text("# changed\n")
    assert compared.ask().everything


def check_random_edits(compared: Compared, seed: int, count: int) -> int:
    """Compare results with those of comparing both revisions. Return the number of results without a comparison."""
    rng = random.Random(seed)
    root: Path = compared.repository.root
    build = [name for name in BUILD if name.endswith("BUILD.toml")]
    short = 0
    for _ in range(count):
        kind = rng.randrange(14)
        if kind < 9:
            name = rng.choice(SOURCES)
            compared.repository.write({name: f"# {rng.random()}\n"})
        elif kind == 9:
            name = rng.choice(build)
            text = (root / name).read_text() + f"# {rng.random()}\n"
            compared.repository.write({name: rng.choice([text, BUILD[name]])})
        elif kind == 10:
            path = root / rng.choice(["a/new.txt", "a/other.txt", "unread.txt"])
            path.unlink() if path.exists() else path.write_text("new")
        elif kind == 11:
            path = root / "a/new.txt"
            path.rename(root / "a/other.txt") if path.exists() else path.write_text("new")
        elif kind == 12:
            (root / "tools/rules/cat.py").open("a").write(f"# {rng.random()}\n")
        else:
            (root / "a/link").unlink()
            (root / "a/link").symlink_to(rng.choice(["x.txt", "m.py"]))
        back = "HEAD"
        if rng.random() < 0.5:
            compared.repository.commit()
            back = rng.choice(["HEAD", "HEAD~1"])
        found = compared.ask(since=back)
        assert found == compared.in_full(since=back)
        with suppress(AssertionError):
            short += compared.quick(since=back) == found
    return short


def test_random_edits(compared: Compared) -> None:
    assert check_random_edits(compared, 1, 25) >= 8


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(2, 8))
def test_more_random_edits(compared: Compared, seed: int) -> None:
    assert check_random_edits(compared, seed, 60) >= 20


def test_byte_code_is_no_change_but_where_a_target_names_it(compared: Compared) -> None:
    named = BUILD["b/BUILD.toml"].replace('"three.txt"', '"three.txt", "__pycache__/x"')
    for text, touched in ((BUILD["b/BUILD.toml"], []), (named, ["//b:alone"])):
        compared.repository.write({"b/BUILD.toml": text})
        compared.repository.commit()
        compared.repository.write({"tools/rules/__pycache__/cat.cpython-311.pyc": "1", "b/__pycache__/x": "1"})
        assert [each.label for each in compared.ask().targets] == touched
        compared.repository.git("clean", "--quiet", "--force", "-d")
