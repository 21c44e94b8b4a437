"""A workspace of cheap rules that look like those for models: an export that drops comments, a compile for a device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from modelbuild.cli.group import cli
from tests.workspace_builder import Workspace

FILES = {
    "MODELBUILD.toml": 'rules = ["//tools/rules"]\n',
    "BUILD.toml": """
[package]
default_visibility = ["//visibility:public"]
[[device_target]]
name = "cpu"
arch = "x86_64"
[[device_target]]
name = "gpu"
arch = "x86_64"
compute_capabilities = ["8.6"]
[[stack]]
name = "fast"
level = 1
[[model]]
name = "net"
srcs = ["net.py", "layers.py"]
weights = ["a.w", "b.w"]
shape = [1, 3]
[[program]]
name = "app"
model = ":net"
stack = ":fast"
device = ":gpu"
[[model]]
name = "other"
srcs = ["other.py"]
weights = []
shape = []
""",
    "net.py": "import layers  # layers\n",
    "layers.py": "width = 1\n",
    "other.py": "other\n",
    "a.w": "1",
    "b.w": "2",
    "tools/rules/__init__.py": "",
    "tools/rules/models.py": """
from dataclasses import dataclass
from modelbuild.api import Artifact, Attrs, Dep, Files, Output, Provider, Sources, rule
from modelbuild_rules.providers import DeviceTarget

@dataclass(frozen=True)
class Stack(Provider):
    level: int

@dataclass(frozen=True)
class Model(Provider):
    program: Artifact
    weights: Artifact

class StackAttrs(Attrs):
    level: int

@rule(attrs=StackAttrs)
def stack(ctx):
    return (Stack(ctx.attrs.level),)

class ModelAttrs(Attrs):
    srcs: Sources
    weights: Sources
    shape: tuple[int, ...]

@rule(attrs=ModelAttrs)
def model(ctx):
    made = ctx.action("export", step="export",
        outputs=[Output("program", "program"), Output("weights", "weights", "tree")],
        inputs={"srcs": ctx.files(ctx.attrs.srcs), "weights": ctx.files(ctx.attrs.weights)},
        params={"inputs": [{"shape": list(ctx.attrs.shape)}]}, tools=("fakedist",))
    return Model(**made), Files((made["program"],))

class ProgramAttrs(Attrs):
    model: Dep
    stack: Dep
    device: Dep

@rule(attrs=ProgramAttrs)
def program(ctx):
    model = ctx.provider(ctx.attrs.model, Model)
    made = ctx.action("compile", step="compile", inputs={"program": model.program, "weights": model.weights},
        outputs=[Output("out", "out")], params={"options": {"level": ctx.provider(ctx.attrs.stack, Stack).level},
        "capabilities": list(ctx.device(DeviceTarget).compute_capabilities)})
    return (Files((made["out"],)),)
""",
    "tools/rules/steps/__init__.py": "",
    "tools/rules/steps/_strip.py": """
def strip(text):
    return "".join(line.partition("#")[0].strip() for line in text.splitlines())
""",
    "tools/rules/steps/export.py": """
from modelbuild.step import StepError
from tools_rules.steps._strip import strip

def run(step):
    text = "".join(strip(path.read_text()) for path in step.inputs["srcs"])
    if "broken" in text:
        raise StepError("broken")
    step.outputs["program"].write_text(text + str(step.params))
    for path in step.inputs.get("weights", ()):
        (step.outputs["weights"] / path.name).write_text(path.read_text())
    (step.outputs["weights"] / "all").write_text("")
""",
    "tools/rules/steps/compile.py": """
def run(step):
    weights = "".join(p.read_text() for p in sorted(step.input("weights").iterdir()))
    step.outputs["out"].write_text(step.input("program").read_text() + weights + str(step.params))
""",
}


class Models(Workspace):
    """`invoke` calls a command in this process, where errors are exceptions; its standard output."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, FILES)

    def invoke(self, *arguments: str, code: int = 0) -> str:
        from modelbuild.code.step_sources import source

        source.cache_clear()  # lasts for a process's life; each command must behave as if in a new one
        ended = CliRunner().invoke(
            cli, ["-C", str(self.root), *arguments], catch_exceptions=False, standalone_mode=False
        )
        assert (ended.return_value or 0) == code, ended.output
        return ended.stdout

    def build_app(self, *arguments: str, code: int = 0) -> None:
        self.invoke("build", "//:app", "-q", *arguments, code=code)

    def explain(self, *arguments: str) -> Any:
        return json.loads(self.invoke("explain", "//:app", "--json", *arguments))

    def tool(self, version: str) -> None:
        """Install a distribution."""
        folder = self.root.parent / "site"
        for old in folder.glob("fakedist-*"):
            (old / "METADATA").unlink()
            old.rmdir()
        (folder / f"fakedist-{version}.dist-info").mkdir(parents=True)
        text = f"Metadata-Version: 2.1\nName: fakedist\nVersion: {version}\n"
        (folder / f"fakedist-{version}.dist-info" / "METADATA").write_text(text)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Models:
    monkeypatch.setenv("MODELBUILD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(tmp_path / "site")
    made = Models(tmp_path)
    made.tool("1.0")
    return made
