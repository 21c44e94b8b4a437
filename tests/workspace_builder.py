"""Workspaces in folders, and the command line run in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from tests.command_runner import MODELBUILD, Ended, Running, start_child, start_program

OUTPUT = "modelbuild-out"


class Workspace:
    """A workspace `root` in a folder, with a cache of its own unless it is given one.

    Commands run in children of this process that find the engine imported, unless a program is given.
    """

    program: Sequence[str] = ()
    """What runs commands, each in a process of its own, as MODELBUILD does."""

    powerless = False
    """Whether commands lack root's right to read and write whatever it likes."""

    def __init__(self, folder: Path, files: Mapping[str, str] | None = None, *, cache: Path | None = None) -> None:
        self.folder = folder
        self.root = folder / "workspace"
        self.cache = cache or folder / "cache"
        self.root.mkdir(parents=True)
        self.write(files or {})
        self._commands = 0

    def write(self, files: Mapping[str, str]) -> None:
        write(self.root, files)

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a text that must be there."""
        text = (self.root / name).read_text()
        assert old in text
        self.write({name: text.replace(old, new)})

    def add(self, name: str, text: str) -> None:
        """Write to the end of a file."""
        with (self.root / name).open("a") as file:
            file.write(text)

    def copy(self, folder: Path) -> Self:
        """The same workspace and what is in its cache, as new ones below a folder; nothing is laid out."""
        made = type(self)(folder)
        made.copy_in(self.root)
        shutil.copytree(self.cache, made.cache)
        return made

    def copy_in(self, root: Path) -> None:
        """Copy another workspace into this one, but for what is laid out in it."""
        left_out = shutil.ignore_patterns(OUTPUT, "__pycache__")
        shutil.copytree(root, self.root, symlinks=True, ignore=left_out, dirs_exist_ok=True)

    def git(self, *arguments: str) -> str:
        """Run git in the root; its standard output."""
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
        command = ["git", *who, *arguments]
        return subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True).stdout

    def commit(self, message: str = "edit") -> str:
        """Commit all there is; the commit's name."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD").strip()

    def environment(self, **more: str) -> dict[str, str]:
        """This process's environment with the cache's folder in it, and more."""
        own = {"MODELBUILD_CACHE_DIR": str(self.cache), "COLUMNS": "200"}
        # Byte code is one more thing that can be out of date, and builds on CI take other defaults.
        kept = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTHONDONTWRITEBYTECODE")}
        return {**kept, **own, **more}

    def start(
        self, *arguments: str, program: Sequence[str] | None = None, cwd: Path | None = None, **environment: str
    ) -> Running:
        """Start a command, or a program with these arguments."""
        self._commands += 1
        place = (cwd or self.root, self.environment(**environment), self.folder / f"log/{self._commands}")
        command = tuple(self.program if program is None else program)
        if not command and any(name.startswith(("PYTHON", "LD_")) for name in environment):
            command = MODELBUILD  # these are read when a program starts
        if not command and arguments[:1] == ("run",):
            command = MODELBUILD  # it loads ExecuTorch, whose threads outlive no fork
        if command:
            return start_program([*command, *arguments], *place)
        return start_child(arguments, *place, powerless=self.powerless)

    def run(
        self, *arguments: str, program: Sequence[str] | None = None, cwd: Path | None = None, **environment: str
    ) -> Ended:
        return self.start(*arguments, program=program, cwd=cwd, **environment).wait()

    def build(self, *arguments: str, code: int = 0, **environment: str) -> Ended:
        """`modelbuild build ... --json`, which has to end with this code."""
        ended = self.run("build", *arguments, "--json", **environment)
        assert ended.code == code, ended.err + ended.out
        return ended

    def ran(self, *arguments: str, **environment: str) -> set[str]:
        """The ids of the actions that a build had to run."""
        statuses = self.build(*arguments, **environment).statuses
        return {name for name, status in statuses.items() if status == "ran"}

    def wait_for_an_action(self, build: Running) -> None:
        """Wait until an action of a running build has begun an output."""
        while not build.over and not list((self.cache / "tmp").glob("build-*/*/.outputs/*")):
            time.sleep(0.01)

    def let_go(self, build: Running) -> Ended:
        """Make a file `go` in the temporary folder of each action of a build, until it ends."""
        while not build.over:
            for home in (self.cache / "tmp").glob("build-*/*/.home"):
                with suppress(FileNotFoundError):
                    (home / "go").touch()
            time.sleep(0.01)
        return build.wait()

    def test(self, *arguments: str, code: int = 0, **environment: str) -> dict[str, Any]:
        """`modelbuild test ... --json`, which has to end with this code; what it says of each test, by its label."""
        ended = self.run("test", *arguments, "--json", **environment)
        assert ended.code == code, ended.err + ended.out
        return {test["label"]: test for test in ended.json["tests"]}


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts to files below a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
