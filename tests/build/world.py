"""Workspaces that are built by the command line, each time in a new process that has imported the engine."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import stat
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tests.powerless import give_up_power

# Imports of a build; a test forks afterwards, because importing takes longer than a small build.
IMPORTED = ("cli.commands", "cli.build", "cli.clean", "cli.cache", "build.execute", "build.plan")

OUTPUT = "modelbuild-out"

# A rule whose action joins files, and also writes each to a folder; files of `data` have no effect.
RULE = """
from modelbuild.api import Attrs, Context, Files, Output, Sources, rule


class JoinAttrs(Attrs):
    srcs: Sources = ()
    data: Sources = ()
    prefix: str = ""


@rule(attrs=JoinAttrs)
def join(ctx: Context[JoinAttrs]) -> tuple[Files]:
    ctx.files(ctx.attrs.data)
    name = ctx.label.name
    made = ctx.action(
        "join",
        step="join",
        inputs={"srcs": ctx.files(ctx.attrs.srcs)},
        outputs=[Output("made", f"{name}.txt"), Output("parts", f"{name}.parts", "tree")],
        params={"prefix": ctx.attrs.prefix},
    )
    return (Files((made["made"], made["parts"])),)
"""

STEP = """
import os

from modelbuild.step import StepError


def run(step):
    parts = []
    for source in step.inputs.get("srcs", ()):
        files = [source] if source.is_file() else sorted(path for path in source.rglob("*") if path.is_file())
        parts += [(path.name, path.read_text(), os.access(path, os.X_OK)) for path in files]
    text = step.params["prefix"] + "".join(text for _, text, _ in parts)
    if "fail" in text:
        raise StepError("told to fail")
    step.outputs["made"].write_text(text)
    for number, (name, text, executable) in enumerate(parts):
        path = step.outputs["parts"] / str(number) / name
        path.parent.mkdir()
        path.write_text(text)
        path.chmod(0o755 if executable else 0o644)
"""

RULES = {
    "MODELBUILD.toml": 'rules = ["//rules"]\n',
    "rules/__init__.py": "",
    "rules/join.py": RULE,
    "rules/steps/__init__.py": "",
    "rules/steps/join.py": STEP,
}


@dataclass(frozen=True)
class Ended:
    """`outputs` are the files in the folders of targets that a build listed: content and executable bit by path."""

    code: int
    out: str
    err: str
    outputs: Mapping[str, tuple[bytes, bool]]

    @property
    def nothing_to_do(self) -> bool:
        return "Nothing to do" in self.out

    @property
    def errors(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("error: ")]


class Running:
    """A started command. Its output goes to files, so that it never waits for a reader."""

    def __init__(self, work: Callable[[], int], folder: Path, environment: Mapping[str, str], log: Path) -> None:
        self.folder = folder
        self._log = log
        self._log.mkdir(parents=True)
        self.pid = os.fork()
        if self.pid == 0:
            code = 70
            try:
                code = _child(work, folder, environment, log)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)

    def kill(self) -> None:
        """Kill only the command itself, without notice to its processes, as the kernel does when memory runs out."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def wait(self, look: bool = True) -> Ended:
        """Wait for its end, and check its outputs unless another process may have removed them."""
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        out, err = ((self._log / name).read_text() for name in ("out", "err"))
        return Ended(code, out, err, outputs_of(self.folder, out) if look else {})


def _child(work: Callable[[], int], folder: Path, environment: Mapping[str, str], log: Path) -> int:
    give_up_power()
    os.setsid()
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(log / name, os.O_WRONLY | os.O_CREAT, 0o644), number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1) for number in (1, 2))
    sys.stdin = open(os.devnull)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # byte code could be out of date, too
    sys.dont_write_bytecode = False
    os.chdir(folder)
    return work()


class World:
    """A workspace and a cache. `build` returns the result of `modelbuild build`."""

    def __init__(self, folder: Path) -> None:
        for name in IMPORTED:
            importlib.import_module(f"modelbuild.{name}")
        self.folder = folder
        self.root = folder / "workspace"
        self.cache = folder / "cache"
        self._commands = 0
        self.root.mkdir(parents=True)

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def settle(self) -> None:
        """Wait until the file system's clock distinguishes a change from all earlier ones."""
        time.sleep(0.06)

    def start(self, *arguments: str, **environment: str) -> Running:
        from modelbuild.cli import invoke

        self._commands += 1
        given = {**os.environ, "MODELBUILD_CACHE_DIR": str(self.cache), **environment}
        return Running(lambda: invoke(arguments), self.root, given, self.folder / f"log/{self._commands}")

    def run(self, *arguments: str, look: bool = True, **environment: str) -> Ended:
        return self.start(*arguments, **environment).wait(look)

    def look(self, ended: Ended) -> Ended:
        """Return the result with the current outputs."""
        return replace(ended, outputs=outputs_of(self.root, ended.out))

    def build(self, *arguments: str) -> Ended:
        return self.run("build", *arguments)

    def nothing_to_do(self, *arguments: str) -> None:
        """Build until nothing is left to do, which takes until the file system's clock advances."""
        for _ in range(5):
            self.settle()
            ended = self.build(*arguments)
            if ended.nothing_to_do:
                return
        raise AssertionError(f"there is always something to do: {ended.out}{ended.err}")

    def afresh(self, *arguments: str) -> Ended:
        """Run the same build on a clone of the workspace, with an empty cache."""
        clone = World(self.folder / f"clone-{self._commands}")
        clone.root.rmdir()
        shutil.copytree(self.root, clone.root, symlinks=True, ignore=shutil.ignore_patterns(OUTPUT, "__pycache__"))
        ended = clone.build(*arguments)
        shutil.rmtree(clone.folder)
        return replace(ended, err=ended.err.replace(str(clone.root), str(self.root)))

    def check(self, *arguments: str) -> Ended:
        """Build, and check that the result equals that of a build from scratch."""
        ended = self.build(*arguments)
        fresh = self.afresh(*arguments)
        assert_same(ended, fresh)
        return ended


def assert_same(ended: Ended, fresh: Ended) -> None:
    """Return comparable lines: concurrent failures are reported in the order in which they end."""
    assert (ended.code, sorted(ended.errors)) == (fresh.code, sorted(fresh.errors)), f"{ended.out}{ended.err}"
    assert dict(ended.outputs) == dict(fresh.outputs)


def outputs_of(root: Path, out: str) -> Mapping[str, tuple[bytes, bool]]:
    """Return all files beside and below those in a build's lines, including any that should not exist."""
    listed = [line.strip() for line in out.splitlines() if line.strip().startswith(f"{OUTPUT}/")]
    found: dict[str, tuple[bytes, bool]] = {}
    for name in listed:
        assert os.path.lexists(root / name), f"{name} is listed and not there"
    for folder in {os.path.dirname(name) for name in listed}:
        found.update(_files(root / folder, folder))
    return found


def _files(path: Path, name: str) -> Mapping[str, tuple[bytes, bool]]:
    status = path.lstat()
    if stat.S_ISREG(status.st_mode):
        return {name: (path.read_bytes(), bool(status.st_mode & 0o100))}
    assert stat.S_ISDIR(status.st_mode), f"{path} is neither a file nor a folder"
    found: dict[str, tuple[bytes, bool]] = {}
    for below in path.iterdir():
        found.update(_files(below, f"{name}/{below.name}"))
    return found
