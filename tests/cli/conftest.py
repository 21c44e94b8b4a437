"""A workspace in a temporary folder, and the command line run in it as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class World:
    """`root` is the workspace; each world has its own cache unless it is given one."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root = root
        self.cache = cache
        root.mkdir(parents=True, exist_ok=True)

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a text that must be there."""
        path = self.root / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "MODELBUILD_CACHE_DIR": str(self.cache), "COLUMNS": "200", **more}

    def run(self, *arguments: str, cwd: Path | None = None, **environment: str) -> Ended:
        ended = subprocess.run(
            [sys.executable, "-m", "modelbuild", *arguments],
            cwd=cwd or self.root,
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=600,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def build(self, *arguments: str, **environment: str) -> dict[str, str]:
        """Build what has to succeed; returns each action's status by its id."""
        ended = self.run("build", *arguments, "--json", **environment)
        assert ended.code == 0, ended.err + ended.out
        return {action["id"]: action["status"] for action in ended.json["actions"]}

    def ran(self, *arguments: str, **environment: str) -> set[str]:
        """The ids of the actions that a build had to run."""
        return {name for name, status in self.build(*arguments, **environment).items() if status == "ran"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "workspace", tmp_path / "cache")


@pytest.fixture
def example_rules(repository: Path) -> dict[str, str]:
    """The rule package of docs/rules.md, file by file, and a MODELBUILD.toml that names it."""
    import re

    text = (repository / "docs/rules.md").read_text()
    found = dict(re.findall(r"^`(tools/rules/[^`]+)`.*?\n\n```python\n(.*?)```", text, re.DOTALL | re.MULTILINE))
    assert len(found) == 3
    return {**found, "tools/rules/steps/__init__.py": "", "MODELBUILD.toml": 'rules = ["//tools/rules"]\n'}
