"""A workspace of stages: actions that wait for a test, or do something odd."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.command_runner import Running
from tests.script_rule import install
from tests.workspace_builder import Workspace

RULE = '''
from modelbuild.api import Attrs, Context, Files, Output, Sources, rule

class StageAttrs(Attrs):
    """Does something odd, and writes what it was given with its own name added."""

    srcs: Sources = ()
    waits: str = ""
    """A file; while it is there, the step waits."""
    does: str = ""

@rule(attrs=StageAttrs)
def stage(ctx: Context[StageAttrs]) -> tuple[Files]:
    made = ctx.action(
        "stage",
        step="stage",
        inputs={"srcs": ctx.files(ctx.attrs.srcs)},
        outputs=[Output("out", f"{ctx.label.name}.txt")],
        params={"name": ctx.label.name, "does": ctx.attrs.does},
        unkeyed={"waits": ctx.attrs.waits},
    )
    return (Files((made["out"],)),)
'''
STEP = """
import os, signal, sys, tempfile, time

def run(step):
    name, waits = step.params["name"], step.params["waits"]
    if waits:
        with open(f"{tempfile.gettempdir()}/{name}.{os.getpid()}", "w"):
            pass
        while os.path.exists(waits):
            time.sleep(0.01)
    print("printed by", name)
    print("complained by", name, file=sys.stderr)
    exec(step.params["does"])
    text = "".join(path.read_text() for path in step.inputs.get("srcs", ()))
    step.outputs["out"].write_text(text + name + "\\n")
"""


def wait_for(condition: Callable[[], Any]) -> Any:
    """Wait until the condition returns something; return that."""
    for _ in range(12000):
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError("waited for two minutes in vain")


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Stages:
    """A workspace whose package //a has stages."""

    def __init__(self, workspace: Workspace, folder: Path) -> None:
        self.workspace = workspace
        self.hold = folder / "hold"
        # Actions may read folders of distributions.
        install(folder, "hold", "1.0", {})
        self.environment = {"PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))}
        workspace.write(
            {
                "MODELBUILD.toml": 'rules = ["//rules"]\n',
                "rules/__init__.py": "",
                "rules/stage.py": RULE,
                "rules/steps/__init__.py": "",
                "rules/steps/stage.py": STEP,
            }
        )

    def declare(self, **stages: dict[str, Any]) -> None:
        text = ""
        for name, attributes in stages.items():
            given = {"srcs": [], **attributes}
            lines = "".join(f"{key} = {value!r}\n" for key, value in given.items())
            text += f'[[stage]]\nname = "{name}"\n{lines}\n'
        self.workspace.write({"a/BUILD.toml": text})

    def start(self, *arguments: str) -> Running:
        return self.workspace.start("build", *arguments, **self.environment)

    def waiting(self, name: str, count: int = 1) -> list[int]:
        """Return the processes of a stage, once there are as many."""

        def found_all() -> list[int]:
            begun = (self.workspace.cache / "tmp").glob(f"build-*/*/.home/{name}.[0-9]*")
            try:
                found = [int(path.suffix[1:]) for path in begun]
            except FileNotFoundError:  # a build removes its folder meanwhile
                return []
            return found if len(found) == count else []

        pids: list[int] = wait_for(found_all)
        return pids

    def output(self, name: str) -> str:
        return (self.workspace.root / f"modelbuild-out/default/a/{name}/{name}.txt").read_text()

    def processes(self) -> list[int]:
        """Return all processes of this workspace's builds: their command lines or folders name it."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                told = (folder / "cmdline").read_bytes().decode(errors="replace") + os.readlink(folder / "cwd")
            except OSError:
                continue
            if (
                str(self.workspace.root.parent) in told
                and int(folder.name) != os.getpid()
                and running(int(folder.name))
            ):
                found.append(int(folder.name))
        return found

    def verify_cache(self) -> None:
        ended = self.workspace.run("cache", "verify", "--json")
        assert (ended.code, ended.json["bad"]) == (0, [])
