"""A workspace with its own rule, built by the command line: with all features of the kernel, and with fewer.

In the mode `fallback` modelbuild runs in a user namespace that allows no others, as on a machine that forbids them.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from modelbuild.execution.isolation.namespaces import refusal
from tests.command_runner import MODELBUILD, Ended
from tests.workspace_builder import Workspace

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


FILES = {
    "MODELBUILD.toml": 'rules = ["//probe"]\n',
    "probe/__init__.py": "",
    "probe/probe.py": RULE,
    "probe/steps/__init__.py": "",
    "BUILD.toml": "",
}


class Probes(Workspace):
    """`step` makes a step, `target` a target that runs one. `namespaces`: actions have some."""

    def __init__(self, folder: Path, within: tuple[str, ...]) -> None:
        super().__init__(folder, FILES)
        self.namespaces = not within and not refusal(str(folder))
        self.program = (*within, *MODELBUILD)

    def step(self, name: str, source: str) -> None:
        self.write({f"probe/steps/{name}.py": dedent(source)})

    def target(self, name: str, step: str, **attributes: Any) -> None:
        lines = [f"{key} = {_toml(value)}" for key, value in {"name": name, "step": step, **attributes}.items()]
        self.add("BUILD.toml", "\n".join(["[[probe]]", *lines, "", ""]))

    def build_all(self, *arguments: str, **environment: str) -> Ended:
        """Build all targets, whether that succeeds or not."""
        return self.run("build", "//...", "--keep-going", *arguments, **environment)

    def value(self, name: str) -> Any:
        """Return the output of a target's action."""
        (file,) = (self.root / "modelbuild-out").rglob(f"{name}/out.json")
        return json.loads(file.read_text())

    def probe(self, source: str, **attributes: Any) -> Any:
        """Return the output of one action, which must succeed."""
        self.step("only", source)
        self.target("only", "only", **attributes)
        done = self.build_all()
        assert done.code == 0, done.err
        return self.value("only")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {json.dumps(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)


@pytest.fixture(params=["kernel", "fallback"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path, landlocked: None) -> Probes:
    prefix = WITHOUT_NAMESPACES if request.param == "fallback" else ()
    if prefix and subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        pytest.skip("not run: this machine allows no user namespaces, so that the other mode is this one")
    return Probes(tmp_path, prefix)
