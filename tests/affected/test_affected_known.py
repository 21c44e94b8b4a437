"""What earlier questions found out: used where nothing that decided it changed, and then the answer is the same."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modelbuild.affected import affected as module
from modelbuild.affected.affected import Affected, affected
from modelbuild.affected.known import Known
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
    """Asks, and tells whether the answer was known."""

    def __init__(self, repository: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.repository = repository
        self.known = False
        self._patch = monkeypatch
        repository.write(BUILD)
        (repository.root / "a/link").symlink_to("x.txt")
        repository.commit()
        touched = Known.touched

        def noted(*given: Any) -> Any:
            found = touched(*given)
            self.known = found is not None
            return found

        monkeypatch.setattr(Known, "touched", noted)

    def ask(self, *patterns: str, since: str = "HEAD", devices: tuple[Label, ...] = ()) -> Affected:
        self.known = False
        return affected(self.repository.workspace(), patterns or ("//...",), "", since, devices)

    def anew(self, *patterns: str, since: str = "HEAD", devices: tuple[Label, ...] = ()) -> Affected:
        """Without anything known, and with both revisions compared."""
        with self._patch.context() as patch:
            patch.setattr(module, "only_contents", lambda change: False)
            return self.ask(*patterns, since=since, devices=devices)

    def labels(self, *patterns: str) -> list[str]:
        return [target.label for target in self.ask(*patterns).targets]


@pytest.fixture
def asked(repository_of_models: Any, monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(repository_of_models, monkeypatch)


def test_the_second_answer_is_known_whatever_changed_meanwhile(asked: Asked) -> None:
    assert (asked.labels(), asked.known) == ([], False)
    for name in SOURCES:
        asked.repository.write({name: "# another\n"})
        found = asked.ask()
        assert asked.known, name
        assert found == asked.anew()
    asked.repository.commit()
    asked.repository.write({"b/two.txt": "2"})
    found = asked.ask(since="HEAD~1")
    assert asked.known
    assert found == asked.anew(since="HEAD~1")


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
    asked.ask()
    asked.repository.write({"a/x.txt": "1", "a/m.py": "# 1\n", "b/one.txt": "1"})
    found = asked.ask(*patterns)
    assert asked.known
    assert found == asked.anew(*patterns)


@pytest.mark.parametrize("pattern", ["//nowhere/...", "//nowhere:all", "//b:nothing", "-//b:last"])
def test_what_no_pattern_means_is_an_error(asked: Asked, pattern: str) -> None:
    asked.ask()
    with pytest.raises(ModelbuildError):
        asked.ask(pattern)


def test_each_device_is_asked_for_by_itself(asked: Asked) -> None:
    device = (Label.parse("//:d2"),)
    asked.ask()
    asked.repository.write({"a/x.txt": "1"})
    first, known = asked.ask(devices=device), asked.known
    assert (first, known) == (asked.anew(devices=device), False)
    assert (asked.ask(devices=device), asked.known) == (first, True)
    other = asked.ask()
    assert asked.known
    assert other == asked.anew() != first


def test_another_checkout_of_the_same_files_has_the_answer(asked: Asked, tmp_path: Path) -> None:
    asked.ask()
    subprocess.run(["git", "clone", "--quiet", asked.repository.top, tmp_path / "other"], check=True)
    asked.repository.root = tmp_path / "other" / "ws"
    asked.repository.write({"b/three.txt": "3"})
    assert (asked.labels(), asked.known) == (["//b:alone"], True)


def _ignored(root: Path, name: str, text: str) -> None:
    (root / ".git").mkdir(exist_ok=True)
    (root.parent / ".git/info/exclude").write_text(f"{name}\n")
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text(text)


OTHERS: dict[str, Callable[[Path], object]] = {
    "a file that git ignores": lambda root: _ignored(root, "a/z.txt", "z"),
    "a package that git ignores": lambda root: _ignored(root, "e/BUILD.toml", "[[word]]\nname = 'e'\nword = 'e'\n"),
    "a rule that git ignores": lambda root: _ignored(root, "tools/rules/more.py", ""),
    "a BUILD file": lambda root: (root / "b/BUILD.toml").open("a").write("# comment\n"),
    "a rule": lambda root: (root / "tools/rules/cat.py").open("a").write("# comment\n"),
    "a step": lambda root: (root / "tools/rules/steps/cat.py").open("a").write("# comment\n"),
    "a link": lambda root: ((root / "a/link").unlink(), (root / "a/link").symlink_to("y.txt")),
    "what git makes of files": lambda root: (root.parent / ".gitattributes").write_text("*.toml eol=crlf\n"),
    "a file less": lambda root: (root / "a/y.txt").unlink(),
}


@pytest.mark.parametrize("what", OTHERS)
@pytest.mark.parametrize("committed", [False, True])
def test_nothing_is_taken_from_another_state(asked: Asked, what: str, committed: bool) -> None:
    asked.ask()
    OTHERS[what](asked.repository.root)
    if committed:
        asked.repository.commit()
    asked.repository.write({"b/three.txt": "3"})
    found = asked.ask()
    assert not asked.known
    assert found == asked.anew()


def test_a_link_that_git_ignores_may_lead_elsewhere(asked: Asked) -> None:
    _ignored(asked.repository.root, "a/free", "")
    path = asked.repository.root / "a/free"
    for name in ("x.txt", "m.py"):
        path.unlink()
        path.symlink_to(name)
        asked.repository.write({"a/BUILD.toml": BUILD["a/BUILD.toml"].replace('"link"', '"free"')})
        asked.repository.commit()
        asked.repository.write({"a/m.py": f"# {name}\n"})
        found = asked.ask()
        assert not asked.known
        assert found == asked.anew()
        assert asked.ask() == found
        assert asked.known


def test_a_listed_folder_has_another_file_though_its_time_is_set_back(asked: Asked) -> None:
    """One that git ignores, and one that a link to nothing leads to from then on."""
    root = asked.repository.root
    (root.parent / ".git/info/exclude").write_text("*free.txt\n")
    (root / "a/free.txt").symlink_to("../target-free.txt")
    glob = "[[cat]]\nname = 'found'\nsrcs = { glob = ['*.txt'] }\n"
    asked.repository.write({"a/BUILD.toml": BUILD["a/BUILD.toml"] + glob})
    asked.repository.commit()
    asked.repository.write({"b/three.txt": "3"})
    assert asked.ask() == asked.anew()
    for name in ("target-free.txt", "a/more-free.txt"):
        before = os.stat((root / name).parent)
        (root / name).write_text("there")
        os.utime((root / name).parent, ns=(before.st_atime_ns, before.st_mtime_ns))
        found = asked.ask()
        assert not asked.known
        assert found == asked.anew()


def test_what_a_link_out_of_the_workspace_leads_to_is_known(asked: Asked) -> None:
    top = asked.repository.top
    (top / "up.txt").write_text("up")
    (asked.repository.root / "a/link").unlink()
    (asked.repository.root / "a/link").symlink_to("../../up.txt")
    asked.repository.commit()
    assert (asked.labels(), asked.known) == ([], False)
    (top / "up.txt").write_text("changed")
    assert (asked.labels(), asked.known) == (["//a:linked"], True)
    asked.repository.git("rm", "--quiet", "--cached", "up.txt")
    (top / ".gitignore").write_text("up.txt\n")
    asked.repository.commit()
    assert (asked.labels(), asked.known) == (["//a:linked"], False)  # git does not say any more what it was
    assert (asked.labels(), asked.known) == (["//a:linked"], False)


def test_another_python_environment_has_answers_of_its_own(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    asked.ask()
    folder = asked.repository.top.parent / "packages"
    folder.mkdir()
    (folder / "pydantic-0.dist-info").touch()
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    asked.ask()
    assert not asked.known


def test_a_changed_engine_touches_everything(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    package = asked.repository.top / "lib/some_rules"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(package.parent))
    asked.repository.write({"MODELBUILD.toml": 'rules = ["//tools/rules", "some_rules"]\n'})
    asked.repository.commit()
    asked.ask()
    assert (asked.labels(), asked.known) == ([], True)
    (package / "__init__.py").write_text("# changed\n")
    assert asked.ask().everything
    assert not asked.known


@pytest.mark.parametrize("size", [0, 50, 4096, 9000])
def test_a_file_cut_short_is_as_none(asked: Asked, size: int) -> None:
    asked.ask()
    (file,) = (asked.repository.cache / "affected").glob("*.db")
    os.truncate(file, size)
    asked.repository.write({"b/three.txt": "3"})
    assert asked.labels() == ["//b:alone"]
    assert (asked.labels(), asked.known) == (["//b:alone"], True)


def test_the_states_used_last_are_kept(asked: Asked) -> None:
    for number in range(11):
        asked.repository.write({f"c{number}.txt": ""})
        asked.repository.commit()
        asked.ask()
    assert len(list((asked.repository.cache / "affected").iterdir())) == 8
    asked.ask()
    assert asked.known


def check_random_edits(asked: Asked, seed: int, count: int) -> int:
    """Answers with what is known, held to those of comparing both revisions. Returns how many were known."""
    rng = random.Random(seed)
    root: Path = asked.repository.root
    build = [name for name in BUILD if name.endswith("BUILD.toml")]
    known = 0
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
        found = asked.ask(since=back)
        known += asked.known
        assert found == asked.anew(since=back)
    return known


def test_random_edits(asked: Asked) -> None:
    assert check_random_edits(asked, 1, 25) >= 8


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(2, 8))
def test_more_random_edits(asked: Asked, seed: int) -> None:
    assert check_random_edits(asked, seed, 60) >= 20


def test_no_package_is_loaded_for_what_is_known(asked: Asked) -> None:
    """Neither pydantic nor a rule: a fresh process imports little more than git's answers take."""
    asked.repository.write({"b/three.txt": "3"})
    program = (
        "import json, sys\n"
        "from modelbuild.cli import invoke\n"
        "code = invoke(sys.argv[1:])\n"
        "print(*sorted(set(sys.modules)), file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    command = [sys.executable, "-c", program, "-C", str(asked.repository.root), "affected", "--since", "HEAD"]
    environment = {**os.environ, "MODELBUILD_CACHE_DIR": str(asked.repository.cache)}
    first, second = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd="/") for _ in range(2)
    )
    assert first.stdout == second.stdout == "//b:alone\n"
    imported = set(second.stderr.split())
    assert imported.isdisjoint({"pydantic", "networkx", "rich", "modelbuild_rules", "modelbuild.analysis.analyze"})
    assert imported.isdisjoint({"modelbuild.loading.loader", "modelbuild.execution.keys", "statistics"})


def test_byte_code_is_no_change_but_where_a_target_names_it(asked: Asked) -> None:
    named = BUILD["b/BUILD.toml"].replace('"three.txt"', '"three.txt", "__pycache__/x"')
    for text, touched in ((BUILD["b/BUILD.toml"], []), (named, ["//b:alone"])):
        asked.repository.write({"b/BUILD.toml": text})
        asked.repository.commit()
        asked.repository.write({"tools/rules/__pycache__/cat.cpython-311.pyc": "1", "b/__pycache__/x": "1"})
        for known in (False, True):
            assert (asked.labels(), asked.known) == (touched, known)
        asked.repository.git("clean", "--quiet", "--force", "-d")


def test_a_cache_that_cannot_be_written_to_keeps_nothing(asked: Asked) -> None:
    (asked.repository.cache).mkdir(exist_ok=True)
    (asked.repository.cache / "affected").write_text("")
    asked.repository.write({"b/three.txt": "3"})
    assert (asked.labels(), asked.known) == (["//b:alone"], False)
