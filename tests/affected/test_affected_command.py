"""`modelbuild affected`: the compared revisions, and the output formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from modelbuild.analysis.rules import forget
from modelbuild.cli.group import cli
from modelbuild.code.step_sources import source
from modelbuild.errors import LoadingError, UsageError

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
    (line,) = ask(repo, "--since", "HEAD", "--format", "github-matrix", "--shards", "2")
    matrix = json.loads(line)["include"]
    assert [each["shard"] for each in matrix] == ["1/2", "2/2"]
    assert sorted(label for each in matrix for label in each["targets"].split()) == ["//m:one", "//m:three", "//m:two"]
    (line,) = ask(repo, "--since", "HEAD", "--format", "github-matrix", "--kind", "dog")
    assert json.loads(line) == {"include": []}


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
