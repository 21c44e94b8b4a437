"""A changed toolchain affects all targets; a lock that pins the same affects none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.affected.test_affected_command import ALL, BUILD, ask, repo

__all__ = ["repo"]

PIN = "torch==1 --hash=sha256:" + "a" * 64 + "\n"


@pytest.fixture
def pinned(repo: Any) -> Any:
    settings: Path = repo.root / "MODELBUILD.toml"
    tools = '[[python_toolchain]]\nname = "tools"\nlock = "tools.lock"\n'
    text = settings.read_text() + '[build]\ntoolchain = "//tools"\n'
    repo.write({"MODELBUILD.toml": text, "tools/BUILD.toml": tools, "tools/tools.lock": PIN})
    repo.commit()
    return repo


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("tools/tools.lock", "torch==1", "torch==2"),
        ("tools/tools.lock", "a" * 64, "b" * 64),
        ("tools/BUILD.toml", "lock =", 'python = "3.12"\nlock ='),
        ("MODELBUILD.toml", 'toolchain = "//tools"', ""),
    ],
    ids=["version", "hash", "python", "none"],
)
def test_another_toolchain_affects_everything(pinned: Any, file: str, old: str, new: str) -> None:
    text = (pinned.root / file).read_text()
    assert old in text
    pinned.write({file: text.replace(old, new)})
    assert set(ALL) <= set(ask(pinned, "--since", "HEAD"))


def test_a_comment_in_the_lock_affects_nothing(pinned: Any) -> None:
    pinned.write({"tools/tools.lock": "# A comment.\n" + PIN})
    assert [label for label in ask(pinned, "--since", "HEAD") if label in ALL] == []


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("tools/tools.lock", "torch==1", "torch==2"),
        ("tools/BUILD.toml", "lock =", 'python = "3.12"\nlock ='),
        ("m/BUILD.toml", 'toolchain = "//tools"', ""),
    ],
    ids=["version", "python", "none"],
)
def test_a_targets_own_toolchain_affects_it_and_what_reads_it(repo: Any, file: str, old: str, new: str) -> None:
    tools = '[[python_toolchain]]\nname = "tools"\nlock = "tools.lock"\nvisibility = ["//m"]\n'
    build = BUILD.replace('name = "one"', 'name = "one"\ntoolchain = "//tools"')
    repo.write({"tools/BUILD.toml": tools, "tools/tools.lock": PIN, "m/BUILD.toml": build})
    repo.commit()
    text = (repo.root / file).read_text()
    assert old in text
    repo.write({file: text.replace(old, new)})
    assert [label for label in ask(repo, "--since", "HEAD") if label in ALL] == ["//m:one", "//m:two"]
