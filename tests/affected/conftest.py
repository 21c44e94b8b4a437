"""A repository with a workspace of cheap rules, built in this process: each action is a call."""

from __future__ import annotations

import importlib
import os
import sys
import uuid
from pathlib import Path

import pytest

from modelbuild.actions import ActionResult
from modelbuild.analysis.analyze import Analyzer
from modelbuild.analysis.open import open_analyzer
from modelbuild.analysis.rules import forget
from modelbuild.code.step_sources import StepCode, source
from modelbuild.events import Event
from modelbuild.execution.executor import ActionRequest, Outcome
from modelbuild.execution.resolver import Resolver
from modelbuild.execution.scheduling.scheduler import Scheduler
from modelbuild.loading.patterns import expand_patterns
from modelbuild.session.source_files import Sources
from modelbuild.step import Step
from modelbuild.store.digests import value_digest
from modelbuild.store.local import LocalStore, open_store
from modelbuild.workspace.workspace import Workspace, load_workspace
from tests import workspace_builder

RULES = {
    "tools/rules/__init__.py": "",
    "tools/rules/cat.py": '''
from functools import partial
from modelbuild.api import Artifact, Attrs, Dep, Files, Output, Platform, Provider, Sources, rule
from dataclasses import dataclass

@dataclass(frozen=True)
class Word(Provider):
    word: str

class WordAttrs(Attrs):
    word: str

@rule(attrs=WordAttrs)
def word(ctx):
    return (Word(ctx.attrs.word),)

class CatAttrs(Attrs):
    srcs: Sources
    word: Dep | None = None
    unused: int = 0
    device: Dep | None = None

@rule(attrs=CatAttrs)
def cat(ctx):
    word = ctx.provider(ctx.attrs.word, Word).word if ctx.attrs.word else ""
    made = ctx.action("cat", step="cat", inputs={"srcs": ctx.files(ctx.attrs.srcs)},
        outputs=[Output("out", "out.txt")], params={"word": word}, python=("srcs",))
    return (Files((made["out"],)),)

class SplitAttrs(Attrs):
    src: Sources
    extra: Sources = ()

@rule(attrs=SplitAttrs)
def split(ctx):
    """An action for each word of the sources, known when these are built; each reads `extra` too."""
    made = ctx.action("plan", step="plan", inputs={"srcs": ctx.files(ctx.attrs.src)},
        outputs=[Output("plan", "plan.txt"), Output("parts", "parts", "tree")])
    promised = ctx.expand(reads=made["plan"], promises=("all",), then=partial(_then, ctx.files(ctx.attrs.extra)))
    return (Files((promised["all"],)),)

def _then(extra, ctx, data):
    words = data.decode().split()
    parts = [ctx.action("part", name=f"part:{word}", step="cat", inputs={"srcs": extra},
        outputs=[Output("out", "out.txt")], params={"word": word})["out"] for word in words]
    return {"all": ctx.action("join", step="cat", inputs={"srcs": parts}, outputs=[Output("out", "all.txt")],
        params={"word": ""})["out"]}
''',
    "tools/rules/steps/__init__.py": "",
    "tools/rules/steps/_text.py": "def join(texts):\n    return ' '.join(texts)\n",
    "tools/rules/steps/cat.py": """
from tools_rules.steps._text import join

def run(step):
    step.outputs["out"].write_text(join([step.params["word"], *(p.read_text() for p in step.inputs.get("srcs", ()))]))
""",
    "tools/rules/steps/plan.py": """
def run(step):
    words = sorted({w for p in step.inputs["srcs"] for w in p.read_text().split() if w.isalnum()})[:4]
    step.outputs["plan"].write_text(" ".join(words))
    for word in words:
        (step.outputs["parts"] / word).write_text(word)
""",
}


class Silent:
    """Reports nothing."""

    def emit(self, event: Event) -> None:
        pass

    def close(self) -> None:
        pass


class InProcess:
    """An executor that calls the step here."""

    def __init__(self, store: LocalStore) -> None:
        self._store = store

    def run(self, request: ActionRequest) -> Outcome:
        folder = self._store.scratch / uuid.uuid4().hex
        folder.mkdir()
        inputs: dict[str, tuple[Path, ...]] = {}
        for number, item in enumerate(request.inputs):
            path = item.source
            if path is None:
                path = folder / str(number)
                self._store.place(item.value, path)
            inputs[item.name] = (*inputs.get(item.name, ()), path)
        outputs = {}
        for output in request.action.outputs:
            outputs[output.name] = path = folder / "out" / output.path
            path.parent.mkdir(parents=True, exist_ok=True)
            if output.kind == "tree":
                path.mkdir()
        step = importlib.import_module(request.action.step)
        step.run(Step(request.action.params, inputs, outputs, folder))
        return Outcome(ActionResult(tuple((name, self._store.put_output(path)) for name, path in outputs.items())))

    def close(self) -> None:
        pass


class Repository(workspace_builder.Workspace):
    """`root` is the workspace, in a git repository in the folder `top`."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.top = folder
        files = {"MODELBUILD.toml": 'rules = ["//tools/rules"]\n', **RULES, ".gitignore": "ignored*\n"}
        super().__init__(folder, files, cache=cache)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        return super().git("-C", str(self.top), *arguments)

    def workspace(self) -> Workspace:
        forget("tools_rules")
        importlib.invalidate_caches()
        source.cache_clear()
        return load_workspace(self.root, {**os.environ, "MODELBUILD_CACHE_DIR": str(self.cache)})

    def build_here(self) -> dict[str, object]:
        """Build everything; return, by label, the keys of all actions behind its files, and the files' digests."""
        workspace = self.workspace()
        analyzer = open_analyzer(workspace)
        targets = [analyzer.analyze(target.label) for target in expand_patterns(analyzer.loader, ["//..."])]
        wanted = [artifact for target in targets for artifact in target.files()]
        with open_store(self.cache) as store:
            scheduler = self._scheduler(analyzer, store, workspace)
            report = scheduler.build(wanted)
            assert not report.failed
            found: dict[str, object] = {}
            for target in targets:
                ids = analyzer.graph.needed_for([*target.files(), *map(scheduler.values.resolve, target.files())])
                values = [value_digest(scheduler.values.value(artifact)) for artifact in target.files()]
                found[str(target.node.label)] = ({i: report.keys[i] for i in ids if i in report.keys}, values)
        return found

    def _scheduler(self, analyzer: Analyzer, store: LocalStore, workspace: Workspace) -> Scheduler:
        roots = {"modelbuild": Path(sys.modules["modelbuild"].__file__ or "").parent, **analyzer.rules.packages}
        sources = Sources(workspace.root, store)
        keys = Resolver(StepCode(roots), workspace.root, store.read_bytes, sources)
        return Scheduler(analyzer.graph, store, keys, sources.entry, InProcess(store), Silent())


@pytest.fixture
def repository_of_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # files change within their clock's tick
    return Repository(tmp_path / "repo", tmp_path / "cache")
