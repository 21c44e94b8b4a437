"""A workspace with its own rule, built by the command line: with all features of the kernel, and with fewer.

In the mode `fallback` modelbuild runs in a user namespace that allows no others, as on a machine that forbids them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from modelbuild.execution.isolation.namespaces import refusal

RULE = '''"""probe: runs one of this package's steps."""

from modelbuild.api import Attrs, Context, Files, Output, Sources, rule


class ProbeAttrs(Attrs):
    """What a step does, as JSON."""

    step: str
    """The step's name."""

    srcs: Sources = ()
    """Files that it reads."""

    network: bool = False
    """Whether it has a network."""

    unkeyed: dict[str, str] = {}
    """Parameters that are in no key."""


@rule(attrs=ProbeAttrs)
def probe(ctx: Context[ProbeAttrs]) -> tuple[Files]:
    made = ctx.action(
        "probe",
        step=ctx.attrs.step,
        inputs={"srcs": ctx.files(ctx.attrs.srcs)},
        outputs=[Output("out", "out.json")],
        params={"name": ctx.label.name},
        unkeyed=ctx.attrs.unkeyed,
        network=ctx.attrs.network,
    )
    return (Files((made["out"],)),)
'''

# Forbids namespaces below its own, then runs the command.
WITHOUT_NAMESPACES = ("unshare", "-Ur", "sh", "-c", 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"', "sh")


class Workspace:
    """`step` makes a step, `target` a target that runs one, `build` builds all. `namespaces`: actions have some."""

    def __init__(self, folder: Path, prefix: tuple[str, ...]) -> None:
        self.root = folder / "workspace"
        self.cache = folder / "cache"
        self.namespaces = not prefix and not refusal(str(folder))
        self._prefix = prefix
        self.write("MODELBUILD.toml", 'rules = ["//probe"]\n')
        self.write("probe/__init__.py", "")
        self.write("probe/probe.py", RULE)
        self.write("probe/steps/__init__.py", "")

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def step(self, name: str, source: str) -> None:
        self.write(f"probe/steps/{name}.py", dedent(source))

    def target(self, name: str, step: str, **attributes: Any) -> None:
        lines = [f"{key} = {_toml(value)}" for key, value in {"name": name, "step": step, **attributes}.items()]
        with (self.root / "BUILD.toml").open("a") as file:
            file.write("\n".join(["[[probe]]", *lines, "", ""]))

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._prefix, sys.executable, "-m", "modelbuild", *arguments],
            cwd=self.root,
            env={**os.environ, "MODELBUILD_CACHE_DIR": str(self.cache), **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def build(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run("build", "//...", "--keep-going", *arguments, **environment)

    def value(self, name: str) -> Any:
        """Return the output of a target's action."""
        (file,) = (self.root / "modelbuild-out").rglob(f"{name}/out.json")
        return json.loads(file.read_text())

    def probe(self, source: str, **attributes: Any) -> Any:
        """Return the output of one action, which must succeed."""
        self.step("only", source)
        self.target("only", "only", **attributes)
        done = self.build()
        assert done.returncode == 0, done.stderr
        return self.value("only")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {json.dumps(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)


@pytest.fixture(params=["kernel", "fallback"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path, landlocked: None) -> Workspace:
    prefix = WITHOUT_NAMESPACES if request.param == "fallback" else ()
    if prefix and subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        pytest.skip("not run: this machine allows no user namespaces, so that the other mode is this one")
    return Workspace(tmp_path, prefix)
