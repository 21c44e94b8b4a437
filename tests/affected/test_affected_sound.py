"""Random edits: every target whose keys or outputs differ from the base's is affected."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from modelbuild.affected.affected import affected
from modelbuild.errors import ModelbuildError

BUILD = {
    "BUILD.toml": """
[package]
default_visibility = ["//visibility:public"]
[[device_target]]
name = "d1"
arch = "x86_64"
[[device_target]]
name = "d2"
arch = "aarch64"
[[word]]
name = "w"
word = "hello"
""",
    "a/BUILD.toml": """
[package]
default_visibility = ["//visibility:public"]
[[filegroup]]
name = "files"
srcs = { glob = ["*.txt", "sub/**"], exclude = ["no*"] }
[[cat]]
name = "whole"
srcs = [":files", "x.txt"]
word = "//:w"
[[cat]]
name = "py"
srcs = ["m.py", "x.txt"]
""",
    "b/BUILD.toml": """
[package]
default_visibility = ["//visibility:public"]
[[cat]]
name = "chosen"
srcs = { select = { "//:d1" = ["//a:whole"], default = ["one.txt"] } }
device = "//:d1"
[[split]]
name = "split"
src = ["one.txt", "two.txt"]
extra = { glob = ["e*.txt"], allow_empty = true }
[[cat]]
name = "last"
srcs = [":split", ":chosen"]
[[test_suite]]
name = "suite"
tests = [":last", "//a:whole"]
""",
    "c/BUILD.toml": """
[[cat]]
name = "alone"
srcs = ["c.txt"]
[[cat]]
name = "link"
srcs = ["linked.txt"]
""",
    "a/x.txt": "x",
    "a/y.txt": "y",
    "a/no.txt": "no",
    "a/m.py": "import json\n",
    "a/sub/z.txt": "z",
    "b/one.txt": "one",
    "b/two.txt": "two words",
    "b/e1.txt": "e1",
    "c/c.txt": "c",
}
# A text in a file, and another for it: any of these may be undone by a later edit of the same kind.
SWAPS = [
    ("BUILD.toml", '"hello"', '"bye"'),
    ("BUILD.toml", "aarch64", "x86_64"),
    ("a/BUILD.toml", '"sub/**"', '"sub/*"'),
    ("a/BUILD.toml", 'exclude = ["no*"]', "exclude = []"),
    ("a/BUILD.toml", 'name = "files"\n', 'name = "files"\n# comment\n'),
    ("a/BUILD.toml", 'word = "//:w"\n', ""),
    ("b/BUILD.toml", 'device = "//:d1"', 'device = "//:d2"'),
    ("b/BUILD.toml", '"two.txt"]', '"one.txt"]'),
    ("b/BUILD.toml", 'tests = [":last", "//a:whole"]', 'tests = ["//a:whole"]'),
    ("b/BUILD.toml", '[":split", ":chosen"]', '[":chosen", ":split"]'),
    ("c/BUILD.toml", 'srcs = ["c.txt"]', 'srcs = ["c.txt"]\nunused = 3'),
    ("c/BUILD.toml", 'name = "alone"', 'name = "lonely"'),
    ("MODELBUILD.toml", "[build]", '[build]\ndefault_device = "//:d2"'),
    ("tools/rules/steps/_text.py", "' '.join", "'-'.join"),
    ("tools/rules/steps/cat.py", "def run", "# comment\ndef run"),
    ("tools/rules/steps/plan.py", "[:4]", "[:3]"),
    ("tools/rules/cat.py", 'params={"word": word}, python', 'params={"word": word + "!"}, python'),
    ("tools/rules/cat.py", 'params={"word": ""}', 'params={"word": "joined"}'),
    ("tools/rules/cat.py", "class SplitAttrs", "# comment\nclass SplitAttrs"),
]
FILES = ["a/x.txt", "a/y.txt", "a/no.txt", "a/m.py", "a/sub/z.txt", "b/one.txt", "b/two.txt", "b/e1.txt", "c/c.txt"]
NEW = ["a/new.txt", "a/sub/deep/new.txt", "a/nothing.txt", "b/e2.txt", "unrelated.txt", "c/unread.txt", "ignored.txt"]
# Edits that no target reads.
IDLE = {"unrelated", "nothing"}


class Edits:
    """Random changes of a repository; each returns its name."""

    def __init__(self, repository: Any, seed: int) -> None:
        self.repository = repository
        self.random = random.Random(seed)

    def any(self) -> str:
        choices: list[Callable[[], str]] = [self.change, self.change, self.swap, self.swap, self.swap, self.toggle]
        choices += [self.mode, self.package, self.unrelated, self.nothing, self.link]
        return self.random.choice(choices)()

    def change(self) -> str:
        name = self.random.choice(FILES).replace("c/c.", f"{self.c}/c.")
        text = f"word{self.random.randrange(5)} {self.random.randrange(50)}"
        self.repository.write({name: f"# {text}\n" if name.endswith(".py") else text})
        return f"change {name}"

    def swap(self) -> str:
        name, one, other = self.random.choice(SWAPS)
        path = self.repository.root / name.replace("c/BUILD", f"{self.c}/BUILD")
        text = path.read_text()
        new = text.replace(other, one) if other and other in text else text.replace(one, other)
        path.write_text(new)
        return f"swap {name}: {one}" if new != text else "nothing"

    def toggle(self) -> str:
        path = self.repository.root / self.random.choice(NEW)
        if path.exists():
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("toggled")
        return f"toggle {path.name}"

    def mode(self) -> str:
        path = self.repository.root / self.random.choice(FILES).replace("c/c.", f"{self.c}/c.")
        path.chmod(path.stat().st_mode ^ 0o100)
        return f"mode {path.name}"

    @property
    def c(self) -> str:
        """Return the current folder of package c."""
        return "c" if (self.repository.root / "c/BUILD.toml").exists() else "d"

    def package(self) -> str:
        """Move package c away, or back."""
        old, new = self.c, "d" if self.c == "c" else "c"
        (self.repository.root / new).mkdir(exist_ok=True)
        for path in (self.repository.root / old).iterdir():
            path.rename(self.repository.root / new / path.name)
        return "package"

    def unrelated(self) -> str:
        self.repository.write({"README.md": str(self.random.random())})
        return "unrelated"

    def nothing(self) -> str:
        return "nothing"

    def link(self) -> str:
        """Let a link point elsewhere."""
        path = self.repository.root / self.c / "linked.txt"
        path.unlink()
        path.symlink_to(f"../{self.random.choice(['a/x.txt', 'a/y.txt', 'b/one.txt'])}")
        return "link"


def start(repository: Any) -> None:
    repository.write({"MODELBUILD.toml": 'rules = ["//tools/rules"]\n[build]\n', **BUILD})
    (repository.root / "c/linked.txt").symlink_to("../a/x.txt")


def check_history(repository: Any, seed: int, count: int) -> tuple[int, int]:
    """Make random edits, each compared with HEAD before it is committed, and with an older commit after. Returns how
    many targets differed and how many were named."""
    start(repository)
    edits = Edits(repository, seed)
    commits = [repository.commit()]
    built = [repository.build_here()]
    differed = named = made = 0
    while made < count:
        what = edits.any()
        try:
            now = repository.build_here()
        except (ModelbuildError, FileNotFoundError):  # for example a removed package
            repository.git("checkout", "--quiet", "--", ".")
            repository.git("clean", "--quiet", "-d", "--force")
            continue
        made += 1
        back = edits.random.randrange(min(4, len(commits)))
        base, before = commits[-1 - back], built[-1 - back]
        committed = edits.random.random() < 0.5
        if committed:
            commits.append(repository.commit())
        found = affected(repository.workspace(), ["//..."], "", base)
        labels = {each.label for each in found.targets}
        wrong = {label for label in now if now[label] != before.get(label)}
        assert wrong <= labels, f"edit {made} of seed {seed}, {what}: {wrong - labels} left out"
        assert set(found.deleted) == before.keys() - now.keys()
        if back == 0 and what in IDLE:
            assert not labels, f"edit {made} of seed {seed}, {what}"
        differed += len(wrong)
        named += len(labels)
        if not committed:
            commits.append(repository.commit())
        built.append(now)
    return differed, named


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "edits"), [(1, 30), pytest.param(2, 120, marks=pytest.mark.exhaustive)])
def test_nothing_is_left_out(repository_of_models: Any, seed: int, edits: int) -> None:
    differed, named = check_history(repository_of_models, seed, edits)
    assert differed > edits
    assert named < 2 * differed  # and few unaffected targets are listed
