"""Workspaces of tests: write files, run modelbuild on them, read the result.

The fixture `workspace` is an empty one:

    def test_a_build(workspace: Workspace) -> None:
        workspace.write({"MODELBUILD.toml": "", "BUILD.toml": '[[filegroup]]\nname = "f"\nsrcs = ["x"]\n', "x": "1"})
        ended = workspace.run("build", "//:f")
        assert (ended.code, ended.err) == (0, "")
        assert workspace.build("//:f").json["ok"]  # runs with --json and must succeed

Each command runs in a process of its own, with a cache that only this workspace uses.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from tests.command_runner import MODELBUILD, Ended, Running, start

OUTPUT = "modelbuild-out"


class Workspace:
    """A workspace: its files are in `root`, its cache in `cache`, both in `folder` unless another cache is given."""

    program: Sequence[str] = MODELBUILD
    """The program that commands are the arguments of; a subclass may wrap it in another."""

    def __init__(self, folder: Path, files: Mapping[str, str] | None = None, *, cache: Path | None = None) -> None:
        self.folder = folder
        self.root = folder / "workspace"
        self.cache = cache or folder / "cache"
        self.root.mkdir(parents=True)
        self._commands = 0
        self.write(files or {})

    # Files.

    def write(self, files: Mapping[str, str]) -> None:
        """Write texts to files, by their paths in the workspace."""
        write(self.root, files)

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a text in a file, which must contain it."""
        text = (self.root / name).read_text()
        assert old in text
        self.write({name: text.replace(old, new)})

    def add(self, name: str, text: str) -> None:
        """Append a text to a file."""
        with (self.root / name).open("a") as file:
            file.write(text)

    def copy(self, folder: Path) -> Self:
        """Return a copy of the workspace and its cache in another folder, without outputs."""
        made = type(self)(folder)
        made.copy_in(self.root)
        shutil.copytree(self.cache, made.cache)
        return made

    def copy_in(self, root: Path) -> None:
        """Copy the files of another workspace into this one, without outputs."""
        left_out = shutil.ignore_patterns(OUTPUT, "__pycache__")
        shutil.copytree(root, self.root, symlinks=True, ignore=left_out, dirs_exist_ok=True)

    def git(self, *arguments: str) -> str:
        """Run git in the workspace, which must succeed. Returns its standard output."""
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
        command = ["git", *who, *arguments]
        return subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True).stdout

    def commit(self, message: str = "edit") -> str:
        """Commit all files. Returns the commit's hash."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD").strip()

    # Commands. `environment` adds variables to those of the test.

    def run(
        self, *arguments: str, program: Sequence[str] | None = None, cwd: Path | None = None, **environment: str
    ) -> Ended:
        """Run a command to its end, whatever its exit code."""
        return self.start(*arguments, program=program, cwd=cwd, **environment).wait()

    def build(self, *arguments: str, code: int = 0, **environment: str) -> Ended:
        """Run `modelbuild build ... --json`, which must end with this exit code."""
        ended = self.run("build", *arguments, "--json", **environment)
        assert ended.code == code, ended.err + ended.out
        return ended

    def ran(self, *arguments: str, **environment: str) -> set[str]:
        """Build, and return the ids of the actions that ran."""
        statuses = self.build(*arguments, **environment).statuses
        return {name for name, status in statuses.items() if status == "ran"}

    def test(self, *arguments: str, code: int = 0, **environment: str) -> dict[str, Any]:
        """Run `modelbuild test ... --json`, which must end with this exit code. Returns each test by its label."""
        ended = self.run("test", *arguments, "--json", **environment)
        assert ended.code == code, ended.err + ended.out
        return {test["label"]: test for test in ended.json["tests"]}

    # Commands that go on while the test does something.

    def start(
        self, *arguments: str, program: Sequence[str] | None = None, cwd: Path | None = None, **environment: str
    ) -> Running:
        """Start a command, or another program with these arguments."""
        self._commands += 1
        command = [*(self.program if program is None else program), *arguments]
        return start(command, cwd or self.root, self.environment(**environment), self.folder / f"log/{self._commands}")

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of commands: that of the test, the folder of the cache, and more."""
        own = {"MODELBUILD_CACHE_DIR": str(self.cache), "COLUMNS": "200"}
        # Byte code could be out of date, too, and builds on CI have other defaults.
        kept = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTHONDONTWRITEBYTECODE")}
        return {**kept, **own, **more}

    def wait_for_an_action(self, build: Running) -> None:
        """Wait until an action of a build that was started has begun an output."""
        while not build.over:
            with suppress(FileNotFoundError):
                if list((self.cache / "tmp").glob("build-*/*/.outputs/*")):
                    return
            time.sleep(0.01)

    def let_go(self, build: Running) -> Ended:
        """Make a file `go` in the temporary folder of each action until the build ends."""
        while not build.over:
            # A build that ends removes its folders, also between two steps of `glob`.
            with suppress(FileNotFoundError):
                for home in (self.cache / "tmp").glob("build-*/*/.home"):
                    (home / "go").touch()
            time.sleep(0.01)
        return build.wait()


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts to files, by their paths in a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
