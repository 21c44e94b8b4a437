"""Workspaces whose builds are compared with builds from nothing."""

from __future__ import annotations

import mmap
import os
import shutil
import stat
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from tests.command_runner import MODELBUILD, Ended
from tests.powerless import AS_USER
from tests.workspace_builder import OUTPUT, Workspace

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
class Built(Ended):
    """`outputs` are the files in the folders of targets that a build listed: content and executable bit by path."""

    outputs: Mapping[str, tuple[bytes, bool]]


class CheckedWorkspace(Workspace):
    """A workspace whose builds, made as a user who is not root, are compared with builds from nothing."""

    program = (*AS_USER, *MODELBUILD)

    def __init__(self, folder: Path, files: Mapping[str, str] | None = None) -> None:
        """
        modules   a folder on PYTHONPATH
        mappings  files that are mapped: builds read all sources meanwhile
        mounts    each unmounts a folder
        """
        super().__init__(folder, files)
        self.modules = folder / "modules"
        self.modules.mkdir()
        self.mappings: list[tuple[BinaryIO, mmap.mmap]] = []
        self.mounts: dict[Path, ExitStack] = {}

    def environment(self, **more: str) -> dict[str, str]:
        path = [str(self.modules), *filter(None, [os.environ.get("PYTHONPATH")])]
        return super().environment(PYTHONPATH=os.pathsep.join(path), **more)

    def settle(self) -> None:
        """Wait until the file system's clock distinguishes a change from all earlier ones."""
        time.sleep(0.06)

    def look(self, ended: Ended) -> Built:
        """Return the result of a build with the current outputs."""
        return Built(ended.code, ended.out, ended.err, outputs_of(self.root, ended.out))

    def built(self, *arguments: str) -> Built:
        """Build, whatever the exit code."""
        return self.look(self.run("build", *arguments))

    def nothing_to_do(self, *arguments: str) -> None:
        """Build until nothing is left to do, which takes until the file system's clock advances."""
        for _ in range(5):
            self.settle()
            ended = self.built(*arguments)
            if ended.nothing_to_do:
                return
        raise AssertionError(f"there is always something to do: {ended.out}{ended.err}")

    def afresh(self, *arguments: str) -> Built:
        """Run the same build on a clone of the workspace, with an empty cache."""
        clone = CheckedWorkspace(self.folder / "clone")
        clone.copy_in(self.root)
        shutil.copytree(self.modules, clone.modules, dirs_exist_ok=True)
        ended = clone.built(*arguments)
        shutil.rmtree(clone.folder)
        return replace(ended, err=ended.err.replace(str(clone.root), str(self.root)))

    def check(self, *arguments: str) -> Built:
        """Build, and check that the result equals that of a build from scratch."""
        ended = self.built(*arguments)
        assert_same(ended, self.afresh(*arguments))
        return ended


def assert_same(ended: Built, fresh: Built) -> None:
    """Fail unless two builds ended alike; concurrent failures may be reported in another order."""
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
