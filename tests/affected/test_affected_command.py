"""`modelbuild affected`: the compared revisions, and the output formats."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from modelbuild.analysis.rules import forget
from modelbuild.cli.group import cli
from modelbuild.code.step_sources import source
from modelbuild.errors import LoadingError, UsageError
from modelbuild.history.database import write_history

BUILD = """
[[cat]]
name = "one"
srcs = ["one.py"]
[[cat]]
name = "two"
srcs = ["two.txt", ":one"]
[[cat]]
name = "three"
srcs = ["three.txt"]
[[cat]]
name = "rarely"
srcs = ["three.txt"]
tags = ["manual"]
"""

ALL = ["//m:one", "//m:three", "//m:two"]
UV = '[[package]]\nname = "torch"\nversion = "1"\n'


@pytest.fixture
def repo(repository_of_models: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    repository = repository_of_models
    monkeypatch.setenv("MODELBUILD_CACHE_DIR", str(repository.cache))
    repository.write({"m/BUILD.toml": BUILD, "m/one.py": "import torch\n", "m/two.txt": "2", "m/three.txt": "3"})
    repository.commit()
    return repository


def ask(repo: Any, *arguments: str) -> list[str]:
    forget("tools_rules")
    source.cache_clear()
    runner = CliRunner()
    ended = runner.invoke(cli, ["-C", str(repo.root), "affected", *arguments], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.stdout.splitlines()


def test_a_comment_outside_any_declared_input_touches_nothing(repo: Any) -> None:
    repo.write({"m/BUILD.toml": "# hello\n" + BUILD, "m/other.py": "# new\n", "README.md": "new\n"})
    (repo.top / "elsewhere.txt").write_text("outside of the workspace")
    assert ask(repo, "--since", "HEAD") == []


def test_the_merge_base_is_compared_with(repo: Any) -> None:
    repo.git("checkout", "--quiet", "-b", "branch")
    repo.write({"m/two.txt": "22"})
    repo.commit()
    repo.git("checkout", "--quiet", "main")
    repo.write({"m/three.txt": "33"})
    repo.commit()
    repo.git("checkout", "--quiet", "branch")
    assert ask(repo, "--since", "main") == ["//m:two"]
    assert ask(repo, "--since", "main", "--exact") == ["//m:three", "//m:two"]
    assert ask(repo, "//m:three", "--since", "main", "--exact") == ["//m:three"]
    assert ask(repo, "//m:rarely", "--since", "main", "--exact") == ["//m:rarely"]


def test_uncommitted_staged_and_untracked_files_count(repo: Any) -> None:
    repo.write({"m/three.txt": "33"})
    assert ask(repo, "--since", "HEAD") == ["//m:three"]
    repo.git("add", "--all")
    assert ask(repo, "--since", "HEAD") == ["//m:three"]
    repo.write({"n/BUILD.toml": '[[cat]]\nname = "new"\nsrcs = ["ignored.txt"]\n', "n/ignored.txt": "i"})
    assert ask(repo, "--since", "HEAD") == ["//m:three", "//n:new"]
    repo.commit()
    # Untracked files cannot be compared.
    assert ask(repo, "--since", "HEAD") == ["//n:new"]


def test_deleted_and_renamed(repo: Any) -> None:
    repo.git("mv", "workspace/m/three.txt", "workspace/m/drei.txt")
    repo.write({"m/BUILD.toml": BUILD.replace('["three.txt"]', '["drei.txt"]').replace('"two"', '"zwei"')})
    (line,) = ask(repo, "--since", "HEAD", "--json")
    found = json.loads(line)
    assert [(t["label"], t["rule"], t["new"]) for t in found["targets"]] == [
        ("//m:three", "cat", False),
        ("//m:zwei", "cat", True),
    ]
    assert found["deleted"] == ["//m:two"]
    assert found["everything"] is None
    repo.git("rm", "-r", "--quiet", "--force", "workspace/m")
    repo.write({"n/BUILD.toml": ""})
    (line,) = ask(repo, "--since", "HEAD", "--json")
    assert json.loads(line)["deleted"] == ["//m:one", "//m:rarely", "//m:three", "//m:two"]


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        ("requirements.lock", "torch==1.0\nclick==8\n", "torch==1.1\nclick==8\n", ["//m:one", "//m:two"]),
        ("requirements.lock", "torch==1.0\nclick==8\n", "torch==1.0\nclick==9\n", []),
        ("requirements.lock", "torch==1.0\n", "# comment\ntorch==1.0\n", []),
        (
            "uv.lock",
            '[[package]]\nname = "torch"\nversion = "1"\n',
            '[[package]]\nname = "torch"\nversion = "2"\n',
            None,
        ),
        ("poetry.lock", "?", "??", ALL),
    ],
)
def test_a_lock_file_stands_for_the_versions_of_tools(
    repo: Any, name: str, old: str, new: str, expected: list[str] | None
) -> None:
    (repo.top / name).write_text(old)
    repo.commit()
    (repo.top / name).write_text(new)
    assert ask(repo, "--since", "HEAD") == (["//m:one", "//m:two"] if expected is None else expected)


def test_a_base_that_is_broken_or_no_workspace_touches_all(repo: Any) -> None:
    repo.write({"m/BUILD.toml": "[[cat"})
    repo.commit()
    repo.write({"m/BUILD.toml": BUILD})
    assert ask(repo, "--since", "HEAD") == ALL
    repo.write({"m/BUILD.toml": BUILD.replace('"two.txt", ', '"none.txt", ')})
    with pytest.raises(LoadingError, match=r"no file 'none\.txt'"):
        ask(repo, "--since", "HEAD")
    repo.write({"m/BUILD.toml": BUILD})
    repo.git("rm", "--quiet", "--cached", "workspace/MODELBUILD.toml")
    repo.git("commit", "--quiet", "-m", "no workspace")
    assert ask(repo, "--since", "HEAD") == ALL


def test_kind_tests_and_matrix(repo: Any) -> None:
    repo.write({"m/one.py": "import json\n", "m/three.txt": "33"})
    assert ask(repo, "--since", "HEAD", "--kind", "^cat$") == ALL
    assert ask(repo, "--since", "HEAD", "--kind", "dog") == []
    assert ask(repo, "--since", "HEAD", "--tests") == []
    (line,) = ask(repo, "--since", "HEAD", "--format", "github-matrix", "--jobs", "2", "--min-job-length", "1 s")
    matrix = json.loads(line)["include"]
    assert [each["job"] for each in matrix] == ["1/2", "2/2"]
    assert sorted(label for each in matrix for label in each["targets"].split()) == ["//m:one", "//m:three", "//m:two"]
    (line,) = ask(repo, "--since", "HEAD", "--format", "github-matrix", "--kind", "dog")
    assert json.loads(line) == {"include": []}


PROGRAMS = """
[[cat]]
name = "{model}"
srcs = ["{model}.txt"]
[[cat]]
name = "{model}_{number}"
matrix = { model = ["a", "b"], number = [1, 2, 3, 4] }
srcs = [":{model}"]
[[split]]
name = "split"
src = ["words.txt"]
[[cat]]
name = "reader"
srcs = [":split"]
[[test_suite]]
name = "suite"
tests = [":a_1", ":inner"]
[[test_suite]]
name = "inner"
tests = [":b_1"]
""".replace('name = "{model}"', 'name = "{model}"\nmatrix = { model = ["a", "b"] }')


def took(repo: Any, **seconds: float) -> None:
    """Write seconds of actions to the history."""
    repo.cache.mkdir(exist_ok=True)
    now = time.time()
    rows = [("w", name, "seconds", now, value, "") for name, value in seconds.items()]
    write_history(repo.cache, lambda db: db.executemany("INSERT INTO measures VALUES (?, ?, ?, ?, ?, ?)", rows))


@pytest.fixture
def programs(repo: Any) -> Any:
    repo.write({"p/BUILD.toml": PROGRAMS, "p/a.txt": "a", "p/b.txt": "b", "p/words.txt": "some words"})
    repo.commit()
    repo.write({"p/a.txt": "aa", "p/b.txt": "bb", "p/words.txt": "more words"})
    return repo


def matrix(repo: Any, *arguments: str) -> list[tuple[str, float]]:
    (line,) = ask(repo, "--since", "HEAD", "--format", "github-matrix", *arguments)
    return [(job["targets"], job["seconds"]) for job in json.loads(line)["include"]]


def test_programs_of_one_model_are_in_one_job_of_the_matrix(programs: Any) -> None:
    targets = [f"//p:{model}_{number}" for model in "ab" for number in (1, 2, 3, 4)]
    took(programs, **{"//p:a#cat": 300, "//p:b#cat": 300, **{f"{target}#cat": 10 for target in targets}})
    jobs = [("//p:a " + " ".join(targets[:4]), 340), ("//p:b " + " ".join(targets[4:]), 340)]
    assert matrix(programs, *targets, "//p:a", "//p:b") == jobs
    (everything,) = matrix(programs, *targets, "--min-job-length", "1 h")
    assert everything == (" ".join(targets), 680)


def test_a_suite_is_affected_where_its_tests_are(repo: Any) -> None:
    tests = "".join(f'[[py_test]]\nname = "{name}_test"\nsrcs = ["test_{name}.py"]\n' for name in ("a", "b"))
    suites = '[[test_suite]]\nname = "outer"\ntests = [":inner"]\n[[test_suite]]\nname = "inner"\ntests = [":a_test"]\n'
    repo.write({"t/BUILD.toml": tests + suites, "t/test_a.py": "1", "t/test_b.py": "1"})
    repo.commit()
    repo.write({"t/test_b.py": "2"})
    assert ask(repo, "--since", "HEAD") == ["//t:b_test"]
    repo.write({"t/test_a.py": "2", "t/test_b.py": "1"})
    assert ask(repo, "--since", "HEAD") == ["//t:a_test", "//t:inner", "//t:outer"]
    # The same if both revisions are compared.
    repo.write({"t/BUILD.toml": "# Tests.\n" + tests + suites})
    assert ask(repo, "--since", "HEAD") == ["//t:a_test", "//t:inner", "//t:outer"]


def test_a_suite_is_in_the_matrix_by_its_members(programs: Any) -> None:
    took(programs, **{"//p:a#cat": 300, "//p:b#cat": 300, "//p:a_1#cat": 1, "//p:b_1#cat": 2})
    assert matrix(programs, "//p:suite") == [("//p:b_1", 302), ("//p:a_1", 301)]


def test_the_matrix_counts_actions_that_only_a_build_declares(programs: Any) -> None:
    took(programs, **{"//p:split#plan": 1, "//p:split#count:0": 20, "//p:split#count:1": 30, "//p:reader#cat": 4})
    assert matrix(programs, "//p:reader") == [("//p:reader", 55)]


@pytest.mark.parametrize("length", ["1 m", "0", ""])
def test_a_length_of_jobs_is_a_duration(repo: Any, length: str) -> None:
    ended = CliRunner().invoke(cli, ["-C", str(repo.root), "affected", "--since", "HEAD", "--min-job-length", length])
    assert ended.exit_code == 2
    assert "--min-job-length: expected a duration" in ended.output


def test_mistakes(repo: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no revision 'nowhere'"):
        ask(repo, "--since", "nowhere")
    repo.git("checkout", "--quiet", "--orphan", "apart")
    repo.git("commit", "--quiet", "-m", "apart")
    with pytest.raises(UsageError, match="'main' and HEAD have no common ancestor here"):
        ask(repo, "--since", "main")
    lonely = tmp_path / "lonely"
    lonely.mkdir()
    (lonely / "MODELBUILD.toml").write_text("")
    for command in ("affected", "ci"):
        with pytest.raises(UsageError, match="git rev-parse: fatal: not a git repository"):
            CliRunner().invoke(cli, ["-C", str(lonely), command, "--since", "HEAD"], catch_exceptions=False)
