"""Changes of contents alone are answered without the base revision, and as comparing both revisions answers them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from modelbuild.affected import affected as module
from modelbuild.affected.affected import Affected, affected
from modelbuild.errors import ModelbuildError
from modelbuild.labels import Label
from tests.affected.test_affected_contents import BUILD as CONTENTS

BUILD = {
    **CONTENTS,
    "BUILD.toml": CONTENTS["BUILD.toml"]
    + """
[[device_target]]
name = "d1"
arch = "x86_64"
[[device_target]]
name = "d2"
arch = "aarch64"
""",
    "a/BUILD.toml": CONTENTS["a/BUILD.toml"].replace('"py"\n', '"py"\ntags = ["manual"]\n')
    + """
[[cat]]
name = "chosen"
srcs = { select = { "//:d1" = ["m.py"], default = ["x.txt"] } }
device = "//:d1"
""",
    "a/y.txt": "y",
}
SOURCES = [name for name in BUILD if not name.endswith(".toml")]


class Asked:
    """Runs `affected`, and records whether it compared the base revision."""

    def __init__(self, repository: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.repository = repository
        self.compared = False
        self._patch = monkeypatch
        repository.write(BUILD)
        (repository.root / "a/link").symlink_to("x.txt")
        repository.commit()

    def ask(self, *patterns: str, since: str = "HEAD", devices: tuple[Label, ...] = ()) -> Affected:
        from modelbuild.affected import compare

        self.compared = False
        both = compare.compare

        def compared(*given: Any) -> Any:
            self.compared = True
            return both(*given)

        with self._patch.context() as patch:
            patch.setattr(compare, "compare", compared)
            return affected(self.repository.workspace(), patterns or ("//...",), "", since, devices)

    def compare(self, *patterns: str, since: str = "HEAD", devices: tuple[Label, ...] = ()) -> Affected:
        """Ask, with both revisions compared."""
        with self._patch.context() as patch:
            patch.setattr(module, "only_contents", lambda change: False)
            found = self.ask(*patterns, since=since, devices=devices)
        assert self.compared
        return found

    def check(self, *patterns: str, since: str = "HEAD", devices: tuple[Label, ...] = ()) -> Affected:
        """Run `affected`, and compare the result with that of comparing both revisions."""
        found, compared = self.ask(*patterns, since=since, devices=devices), self.compared
        assert found == self.compare(*patterns, since=since, devices=devices)
        self.compared = compared
        return found

    def labels(self, *patterns: str) -> list[str]:
        return [target.label for target in self.ask(*patterns).targets]


@pytest.fixture
def asked(repository_of_models: Any, monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(repository_of_models, monkeypatch)


def test_no_base_is_compared_whatever_contents_change(asked: Asked) -> None:
    for name in SOURCES:
        asked.repository.write({name: "# another\n"})
        asked.check()
        assert not asked.compared, name
    asked.repository.commit()
    asked.repository.write({"b/two.txt": "2"})
    asked.check(since="HEAD~1")
    assert not asked.compared


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
def test_patterns_choose_the_same_in_the_same_order(asked: Asked, patterns: list[str]) -> None:
    asked.repository.write({"a/x.txt": "1", "a/m.py": "# 1\n", "b/one.txt": "1"})
    asked.check(*patterns)
    assert not asked.compared


@pytest.mark.parametrize("pattern", ["//nowhere/...", "//nowhere:all", "//b:nothing", "-//b:last"])
def test_patterns_without_a_target_are_errors(asked: Asked, pattern: str) -> None:
    with pytest.raises(ModelbuildError):
        asked.ask(pattern)


def test_each_device_is_asked_for_by_itself(asked: Asked) -> None:
    asked.repository.write({"a/x.txt": "1"})
    assert asked.check(devices=(Label.parse("//:d2"),)) != asked.check()


def test_a_link_leads_to_changed_contents_out_of_the_workspace(asked: Asked) -> None:
    top = asked.repository.top
    (top / "up.txt").write_text("up")
    (asked.repository.root / "a/link").unlink()
    (asked.repository.root / "a/link").symlink_to("../../up.txt")
    asked.repository.commit()
    assert asked.labels() == []
    (top / "up.txt").write_text("changed")
    assert asked.labels() == ["//a:linked"]
    asked.repository.git("rm", "--quiet", "--cached", "up.txt")
    (top / ".gitignore").write_text("up.txt\n")
    asked.repository.commit()
    assert asked.labels() == ["//a:linked"]  # git no longer knows its content at the base


def test_a_changed_engine_touches_everything(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    package = asked.repository.top / "lib/some_rules"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(package.parent))
    asked.repository.write({"MODELBUILD.toml": 'rules = ["//tools/rules", "some_rules"]\n'})
    asked.repository.commit()
    assert asked.labels() == []
    (package / "__init__.py").write_text("# changed\n")
    assert asked.ask().everything


def check_random_edits(asked: Asked, seed: int, count: int) -> int:
    """Compare results with those of comparing both revisions. Return the number of results without a comparison."""
    rng = random.Random(seed)
    root: Path = asked.repository.root
    build = [name for name in BUILD if name.endswith("BUILD.toml")]
    short = 0
    for _ in range(count):
        kind = rng.randrange(14)
        if kind < 9:
            name = rng.choice(SOURCES)
            asked.repository.write({name: f"# {rng.random()}\n"})
        elif kind == 9:
            name = rng.choice(build)
            text = (root / name).read_text() + f"# {rng.random()}\n"
            asked.repository.write({name: rng.choice([text, BUILD[name]])})
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
            asked.repository.commit()
            back = rng.choice(["HEAD", "HEAD~1"])
        asked.check(since=back)
        short += not asked.compared
    return short


def test_random_edits(asked: Asked) -> None:
    assert check_random_edits(asked, 1, 25) >= 8


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(2, 8))
def test_more_random_edits(asked: Asked, seed: int) -> None:
    assert check_random_edits(asked, seed, 60) >= 20


def test_byte_code_is_no_change_but_where_a_target_names_it(asked: Asked) -> None:
    named = BUILD["b/BUILD.toml"].replace('"three.txt"', '"three.txt", "__pycache__/x"')
    for text, touched in ((BUILD["b/BUILD.toml"], []), (named, ["//b:alone"])):
        asked.repository.write({"b/BUILD.toml": text})
        asked.repository.commit()
        asked.repository.write({"tools/rules/__pycache__/cat.cpython-311.pyc": "1", "b/__pycache__/x": "1"})
        assert asked.labels() == touched
        asked.repository.git("clean", "--quiet", "--force", "-d")
