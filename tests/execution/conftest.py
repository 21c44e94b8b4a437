"""A workspace, a rule package of tiny steps, and a local executor, for tests that run real worker processes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import modelbuild
from modelbuild.actions import (
    Action,
    ActionResult,
    Digest,
    FileEntry,
    Input,
    Output,
    Resources,
    SourceArtifact,
    StagedInput,
)
from modelbuild.code.step_sources import StepCode, source_file
from modelbuild.code.tools import Tools
from modelbuild.execution.executor import ActionRequest, Outcome
from modelbuild.execution.isolation import landlock
from modelbuild.execution.local_executor import LocalExecutor
from modelbuild.store.local import LocalStore, open_store

OWNER = "//models:detector_model"

# Runs a Python file of the workspace like a model's source, and writes its variable `result`.
RUN_SOURCE = """
    import json
    import runpy
    import sys

    def run(step):
        sys.path.insert(0, str(step.root / "models"))
        result = runpy.run_path(str(step.input("srcs")))["result"]
        step.outputs["out"].write_text(json.dumps(result))
"""


class Bench:
    """`write` puts files into the workspace, `step` makes a step, `run` runs an action, `ok` expects it to succeed."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self.rules = folder / "rules" / "tiny_rules"
        self.scratch = folder / "cache" / "tmp"
        self.packages = {"modelbuild": Path(modelbuild.__file__).parent, "tiny_rules": self.rules}
        self.workspace.mkdir()
        self.rules.mkdir(parents=True)
        (self.rules / "__init__.py").write_text("")
        self.store: LocalStore = open_store(folder / "cache")
        self.executor = self.new_executor()
        self.step("run_source", RUN_SOURCE)

    def new_executor(self, **options: Any) -> LocalExecutor:
        return LocalExecutor(self.workspace, self.store, self.scratch, {"tiny_rules": self.rules}, **options)

    def write(self, path: str, content: str | bytes = "") -> Path:
        file = self.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else dedent(content).encode())
        return file

    def step(self, name: str, source: str) -> str:
        (self.rules / f"{name}.py").write_text(dedent(source))
        return f"tiny_rules.{name}"

    def source(self, path: str, name: str = "srcs") -> StagedInput:
        file = self.workspace / path
        data = file.read_bytes()
        digest = Digest(hashlib.sha256(data).hexdigest(), len(data))
        return StagedInput(name, path, file, FileEntry(digest, bool(file.stat().st_mode & 0o100)))

    def request(
        self,
        step: str,
        *inputs: str | StagedInput,
        outputs: tuple[Output, ...] = (Output("out", "out"),),
        cpu: int = 1,
        gpu: int = 0,
        tools: tuple[str, ...] = (),
        local: tuple[StagedInput, ...] = (),
        modules: tuple[str, ...] | None = None,
        **action: Any,
    ) -> ActionRequest:
        staged = tuple(i if isinstance(i, StagedInput) else self.source(i) for i in inputs)
        resources = Resources(cpu=cpu, gpu=gpu)
        declared = tuple(Input(item.name, item.path, SourceArtifact(item.path)) for item in staged)
        what = Action("id", OWNER, "Tiny", f"tiny_rules.{step}", declared, outputs, resources=resources, **action)
        digests = self.digests(*(self.closure(what.step) if modules is None else modules))
        installed = Tools(self.workspace, self.packages)
        keyed = dict.fromkeys((*installed.needed(tools, what.preload).distributions, *tools), "1")
        return ActionRequest(what, staged, keyed, digests, local, what.preload)

    def closure(self, step: str) -> list[str]:
        """Return the modules that a step's source imports; only the packages for a source that is not Python."""
        try:
            return [name for name, _ in StepCode(self.packages).closure(step)]
        except (KeyError, SyntaxError):
            return ["modelbuild", "modelbuild.step", "tiny_rules", step]

    def digests(self, *modules: str) -> dict[str, str]:
        """Return the text of modules in a key: the current SHA-256 of each."""
        files = {name: source_file(self.packages, name) for name in modules}
        return {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in files.items() if file}

    def run(self, step: str, *inputs: str | StagedInput, **options: Any) -> Outcome:
        return self.executor.run(self.request(step, *inputs, **options))

    def ok(self, step: str, *inputs: str | StagedInput, **options: Any) -> ActionResult:
        outcome = self.run(step, *inputs, **options)
        assert outcome.problem == "", self.text(outcome.stderr)
        assert outcome.result is not None
        return outcome.result

    def value(self, step: str, *inputs: str | StagedInput, **options: Any) -> Any:
        """Return the contents of an action's only output, as JSON."""
        entry = self.ok(step, *inputs, **options).output("out")
        assert isinstance(entry, FileEntry)
        return json.loads(self.store.read_bytes(entry.digest))

    def model(self, source: str, *inputs: str | StagedInput, **options: Any) -> Outcome:
        """Return the end of an action that runs `source` as the user's models/detector.py."""
        self.write("models/detector.py", source)
        return self.run("run_source", "models/detector.py", *inputs, python=("srcs",), **options)

    def text(self, digest: Digest | None) -> str:
        return self.store.read_bytes(digest).decode() if digest else ""


@pytest.fixture
def landlocked() -> None:
    """For tests of guarantees that only the kernel can enforce."""
    if not landlock.abi():
        pytest.skip("not run: this kernel has no Landlock, or it is switched off")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.executor.close()
    bench.store.close()
